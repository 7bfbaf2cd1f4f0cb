"""Claims about what is told of the machine and of this process."""

import os
import pathlib
import sys

import pytest

from gpt2cli.machine import (
    count_cores,
    find_cpu_name,
    find_free_bytes,
    find_versions,
    read_peak,
    reset_peak,
)

MEMINFO = "MemTotal: 9000 kB\nMemFree: 1000 kB\nMemAvailable: 8000 kB\nBuffers: 5 kB\n"


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("processor\t: 0\nmodel name\t: A: 64-Core\n\nmodel name\t: B\n", "A: 64-Core"),
        # Other systems, and some ARM boards: there is another name.
        *((told, None) for told in (None, "processor: 0\n", "model name\t:\n")),
    ],
)
def test_the_processor_has_the_name_that_linux_gives_its_first_core(
    tmp_path: pathlib.Path, told: str | None, name: str | None
) -> None:
    file = tmp_path / "cpuinfo"
    if told is not None:
        file.write_text(told)
    found = find_cpu_name(file)
    assert found == (name or found) != ""


def test_the_peak_is_what_linux_tells_in_bytes(tmp_path: pathlib.Path) -> None:
    """VmHWM counts in 1,024 of them."""
    file = tmp_path / "status"
    file.write_text("Name:\tgpt2\nVmPeak:\t  9 kB\nVmHWM:\t   123 kB\n")
    assert read_peak(file) == 123 * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_where_linux_does_not_tell_another_count_is_taken(tmp_path: pathlib.Path) -> None:
    """A Python process has some megabytes at least."""
    peak = read_peak(tmp_path / "missing")
    assert peak is not None
    assert 5 << 20 < peak < 1 << 40


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_the_peak_can_begin_anew() -> None:
    """What was resident before and is gone does not count any more."""
    block = bytearray(64 << 20)
    before = read_peak()
    del block
    reset_peak()
    after = read_peak()
    assert before is not None
    assert after is not None
    assert after < before - (32 << 20)


def test_versions_are_of_what_is_installed() -> None:
    assert find_versions(["numpy", "no-such-package"]).keys() == {"numpy"}


def test_cores_are_those_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Bound to one core (`taskset -c 0`), a process of a larger machine counts one."""
    assert 1 <= count_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert count_cores(tmp_path / "no cgroup") == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half: both are used, half the time
        ("1000 100000\n", 1),
        ("", 8),
    ],
)
def test_a_cgroup_grants_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, content: str, expected: int
) -> None:
    """`cpu.max` holds quota and period: their ratio, rounded up, or no limit on a machine of 8."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    path = tmp_path / "cpu.max"
    path.write_text(content)
    assert count_cores(path) == expected


@pytest.mark.parametrize(
    ("limit", "free"),
    [
        (None, 8192000),
        ("4096000\n", 4096000),
        ("max\n", 8192000),
        ("9223372036854771712\n", 8192000),
    ],
)
@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_what_is_available_is_free_up_to_a_containers_limit(
    tmp_path: pathlib.Path, name: str, limit: str | None, free: int
) -> None:
    """Also what the page cache would give back; a limit of either version of cgroups."""
    write(tmp_path / "proc/meminfo", MEMINFO)
    if limit is not None:
        write(tmp_path / "sys/fs/cgroup" / name, limit)
    assert find_free_bytes(tmp_path) == free


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("meminfo", ["", "MemAvailable: many kB\n"])
def test_where_linux_tells_nothing_the_free_pages_count(
    tmp_path: pathlib.Path, meminfo: str
) -> None:
    """Old kernels and other systems have no MemAvailable."""
    write(tmp_path / "proc/meminfo", meminfo)
    assert find_free_bytes(tmp_path) > 1 << 20
