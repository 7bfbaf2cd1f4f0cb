"""Claims about what is told of the machine and of this process."""

import pathlib
import sys

import pytest

from gpt2cli.machine import find_cpu_name, read_peak, reset_peak


def test_the_processor_has_the_name_that_linux_gives_it(tmp_path: pathlib.Path) -> None:
    """That of the first core."""
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: A: 64-Core\n\nmodel name\t: B\n")
    assert find_cpu_name(file) == "A: 64-Core"


@pytest.mark.parametrize("told", [None, "processor: 0\n", "model name\t:\n"])
def test_where_linux_tells_no_name_there_is_another(
    tmp_path: pathlib.Path, told: str | None
) -> None:
    """On other systems, and on some ARM boards."""
    file = tmp_path / "cpuinfo"
    if told is not None:
        file.write_text(told)
    assert find_cpu_name(file)


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
