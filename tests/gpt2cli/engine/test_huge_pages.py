"""Moving memory into huge pages: what is asked for, when, and that nothing is lost."""

import mmap
import pathlib
import re
import sys

import pytest

from gpt2cli.engine import huge_pages
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.huge_pages import HugePages
from gpt2cli.model_folder import ModelFolder

_MB = 1 << 20

linux = pytest.mark.skipif(sys.platform != "linux", reason="huge pages are moved on Linux only")


@pytest.fixture
def maps(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a file that stands in for Linux's own list of what is mapped."""
    path = tmp_path / "maps"
    monkeypatch.setattr(huge_pages, "_MAPS", path)
    return path


def line(start: int, stop: int, mode: str = "rw-p", inode: int = 0, name: str = "") -> str:
    return f"{start:x}-{stop:x} {mode} 00000000 00:00 {inode} {name}\n"


def take_all(pages: HugePages, steps: int) -> None:
    for _ in range(steps):
        pages.step()


def watch(maps: pathlib.Path, after: str, advise: huge_pages.Advise) -> HugePages:
    """Return what is to move all that is mapped in `after`: nothing was there before."""
    maps.write_text("")
    pages = HugePages(advise)
    maps.write_text(after)
    return pages


def test_a_step_moves_four_whole_huge_pages(maps: pathlib.Path) -> None:
    """Ends that fill no huge page of 2 MB stay; after the last page nothing is asked."""
    asked: list[tuple[int, int]] = []
    after = line(_MB, 12 * _MB) + line(40 * _MB, 43 * _MB)
    pages = watch(maps, after, lambda *page: asked.append(page))
    pages.step()
    assert asked == [(start * _MB, 2 * _MB) for start in (2, 4, 6, 8)]
    asked.clear()
    take_all(pages, 9)
    assert asked == [(start * _MB, 2 * _MB) for start in (10, 40)]


def test_what_was_there_before_is_not_moved(maps: pathlib.Path) -> None:
    """Even where what has come since lies beside it, and Linux tells them as one."""
    maps.write_text(line(2 * _MB, 6 * _MB))
    asked: list[int] = []
    pages = HugePages(lambda address, length: asked.append(address))
    maps.write_text(line(2 * _MB, 10 * _MB))
    take_all(pages, 9)
    assert asked == [6 * _MB, 8 * _MB]


def test_only_private_memory_of_no_file_is_moved(maps: pathlib.Path) -> None:
    """The heap is; files, stacks, code and what is shared or reserved are not."""
    place = 2 * _MB
    asked: list[int] = []
    after = (
        line(place, 2 * place, inode=7, name="/lib/libc.so")
        + line(2 * place, 3 * place, mode="r-xp")
        + line(3 * place, 4 * place, mode="rw-s")
        + line(4 * place, 5 * place, mode="---p")
        + line(5 * place, 6 * place, name="[stack]")
        + line(6 * place, 7 * place, name="[heap]")
    )
    take_all(watch(maps, after, lambda address, length: asked.append(address)), 9)
    assert asked == [6 * place]


def test_after_slow_pages_the_next_ones_wait(
    maps: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a machine whose memory is in shreds loses little: a few pages in 65 steps."""
    asked: list[int] = []
    # The first page takes 10 ms.
    monkeypatch.setattr(
        "gpt2cli.engine.huge_pages.time.perf_counter", lambda: 0.01 if asked else 0.0
    )
    pages = watch(maps, line(0, 32 * _MB), lambda address, length: asked.append(address))
    take_all(pages, 1 + 64)
    assert len(asked) == 4
    take_all(pages, 2)
    assert len(asked) == 12


def test_elsewhere_nothing_is_read_and_nothing_asked(
    maps: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Linux there is no list: a step does nothing."""
    monkeypatch.setattr(sys, "platform", "darwin")
    take_all(HugePages(), 3)
    assert not maps.exists()


@linux
def test_memory_keeps_its_contents_and_lies_in_huge_pages() -> None:
    """Linux itself says how much of it does."""
    content = bytes(range(256)) * (16 * _MB // 256)
    pages = HugePages()
    memory = mmap.mmap(-1, len(content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(content)
    before = count_huge_kilobytes()
    take_all(pages, 2000)
    assert memory[:] == content
    if count_huge_kilobytes() == before:
        pytest.skip("this Linux moves no memory into huge pages (before 6.1, or switched off)")
    assert count_huge_kilobytes() - before >= 4096


def count_huge_kilobytes() -> int:
    rollup = pathlib.Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    [found] = re.findall(r"AnonHugePages: +(\d+) kB", rollup)
    return int(found)


def test_every_decode_step_moves_some_and_changes_no_bit(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gives the same logits whether or not memory is moved under it."""
    steps: list[None] = []

    class Counted(HugePages):
        def step(self) -> None:
            steps.append(None)
            super().step()

    plain = Engine(small, Device("cpu"))
    monkeypatch.setattr("gpt2cli.engine.engine.HugePages", Counted)
    moved = Engine(small, Device("cpu"))
    for engine in (plain, moved):
        engine.extend(0, [1, 2, 3], [2])
    for number in range(20):
        expected = plain.decode([number]).tobytes()
        assert moved.decode([number]).tobytes() == expected
    assert len(steps) == 20
