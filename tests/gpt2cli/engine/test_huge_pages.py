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
    """Return a line of Linux's list, from megabyte to megabyte."""
    return f"{start * _MB:x}-{stop * _MB:x} {mode} 00000000 00:00 {inode} {name}\n"


def take_all(pages: HugePages, steps: int) -> None:
    for _ in range(steps):
        pages.step()


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        # Ends that fill no huge page of 2 MB stay.
        ("", line(1, 12) + line(40, 43), [2, 4, 6, 8, 10, 40]),
        # What was there before is not moved, though Linux tells it as one with what has come since.
        (line(2, 6), line(2, 10), [6, 8]),
        # The heap is; files, stacks, code and what is shared or reserved are not.
        (
            "",
            line(2, 4, inode=7, name="/lib/libc.so")
            + line(4, 6, mode="r-xp")
            + line(6, 8, mode="rw-s")
            + line(8, 10, mode="---p")
            + line(10, 12, name="[stack]")
            + line(12, 14, name="[heap]"),
            [12],
        ),
    ],
    ids=["whole", "new", "private"],
)
def test_steps_move_whole_pages_of_new_private_memory(
    maps: pathlib.Path, before: str, after: str, moved: list[int]
) -> None:
    """Four pages a step; after the last page nothing is asked."""
    maps.write_text(before)
    asked: list[tuple[int, int]] = []
    pages = HugePages(lambda *page: asked.append(page))
    maps.write_text(after)
    pages.step()
    assert len(asked) == min(4, len(moved))
    take_all(pages, 9)
    assert asked == [(start * _MB, 2 * _MB) for start in moved]


def test_after_slow_pages_the_next_ones_wait(
    maps: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a machine whose memory is in shreds loses little: a few pages in 65 steps."""
    asked: list[int] = []
    # The first page takes 10 ms.
    monkeypatch.setattr(
        "gpt2cli.engine.huge_pages.time.perf_counter", lambda: 0.01 if asked else 0.0
    )
    maps.write_text("")
    pages = HugePages(lambda address, length: asked.append(address))
    maps.write_text(line(0, 32))
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
