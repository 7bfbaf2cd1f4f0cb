"""Which device is chosen, why one is refused, and how many cores may be used."""

import ctypes
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from gpt2cli.engine.devices import (
    Device,
    Driver,
    _read_cgroup_cores,
    ask_driver,
    count_cores,
    require_device,
)
from gpt2cli.errors import DeviceError, UsageError

Load = Callable[[str], Any]


class FakeDriver:
    """Stands for the CUDA driver library with `count` devices; `code` is what cuInit answers."""

    def __init__(self, count: int, code: int = 0, version: int = 13000) -> None:
        self._count = count
        self._code = code
        self._version = version

    def cuDriverGetVersion(self, pointer: Any) -> int:  # noqa: N802
        """Write the version where the pointer points."""
        pointer._obj.value = self._version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802  # the driver's own name
        """Answer with the code."""
        assert flags == 0
        return self._code

    def cuDeviceGetCount(self, pointer: Any) -> int:  # noqa: N802
        """Write the count where the pointer points."""
        pointer._obj.value = self._count
        return 0


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeDriver | None], None]:
    """Return a function that makes the system have this driver library, or none."""

    def install_driver(driver: FakeDriver | None) -> None:
        def load(name: str) -> FakeDriver:
            assert "cuda" in name
            if driver is None:
                raise OSError("cannot open shared object file")
            return driver

        monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", load)

    return install_driver


Install = Callable[[FakeDriver | None], None]


@pytest.mark.parametrize("asked", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cuda:0 ", "0"])
def test_an_unknown_device_is_a_usage_error(asked: str) -> None:
    """The four forms are named with what was found."""
    with pytest.raises(UsageError) as caught:
        require_device(asked)
    assert str(caught.value) == f"device: expected auto, cpu, cuda or cuda:N, found {asked!r}"


def test_cpu_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU is there without looking for anything."""
    monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", None)  # a call would fail
    assert require_device("cpu") == Device("cpu")


def test_a_device_is_chosen_by_number(install: Install) -> None:
    """`cuda` is the first, `cuda:1` the second."""
    install(FakeDriver(2))
    assert require_device("cuda") == Device("cuda", 0)
    assert require_device("cuda:1") == Device("cuda", 1)


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (None, "no NVIDIA driver"),
        (FakeDriver(0), "the NVIDIA driver knows no device"),
        (FakeDriver(1, code=100), "the NVIDIA driver answers: there is no CUDA device, or"),
        (FakeDriver(1, code=803), "the NVIDIA driver answers: its library and its kernel module"),
        (FakeDriver(1, code=719), "the NVIDIA driver answers: error 719"),
    ],
)
def test_cuda_without_a_device_says_why_and_what_to_install(
    install: Install, driver: FakeDriver | None, reason: str
) -> None:
    """One line: the reason, the way out, and the pip line."""
    install(driver)
    with pytest.raises(DeviceError) as caught:
        require_device("cuda")
    message = str(caught.value)
    assert message.startswith(f"device cuda: {reason}")
    assert "use device cpu" in message and "pip install 'onnxruntime-gpu[cuda,cudnn]'" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "libcuda.so.1: file too short"),
        (b"not a library" * 10, "libcuda.so.1: invalid ELF header"),
    ],
)
def test_a_broken_driver_library_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, content: bytes, reason: str
) -> None:
    """The loader's own words say which file it is."""
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(content)
    load = ctypes.CDLL
    monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", lambda name: load(str(library)))
    driver = ask_driver()
    assert driver.devices == 0
    assert driver.reason is not None
    assert driver.reason.startswith("the NVIDIA driver libcuda.so.1 cannot be loaded (")
    assert driver.reason.endswith(f"{reason})")


def test_a_library_that_is_no_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub without the functions is no traceback."""
    monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", lambda name: object())
    assert "libcuda.so.1 is no NVIDIA driver (" in (ask_driver().reason or "")


def test_the_driver_tells_which_cuda_it_runs(install: Install) -> None:
    """12040 is 12.4."""
    install(FakeDriver(1, version=12040))
    assert ask_driver() == Driver(1, "12.4", None)


@pytest.mark.parametrize(("count", "told"), [(1, "is 1 CUDA device"), (2, "are 2 CUDA devices")])
def test_a_number_too_high_tells_how_many_there_are(
    install: Install, count: int, told: str
) -> None:
    """`cuda:99` is a device error with their number; no pip line would bring another."""
    install(FakeDriver(count))
    with pytest.raises(DeviceError) as caught:
        require_device("cuda:99")
    expected = f"device cuda:99: there {told}, counted from 0; use device cpu"
    assert str(caught.value) == expected


def test_a_device_is_written_as_it_is_asked_for() -> None:
    """The text in records and messages is that of the option."""
    assert [str(Device("cpu")), str(Device("cuda", 1))] == ["cpu", "cuda:1"]


def test_cores_are_those_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound to one core (`taskset -c 0`), a process of a larger machine counts one."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert count_cores() == 1


def test_there_is_at_least_one_core_and_no_more_than_the_machine_has() -> None:
    """Whatever limits hold here."""
    assert 1 <= count_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", None),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half: both are used, half the time
        ("1000 100000\n", 1),
        ("", None),
        ("100000\n", None),
    ],
)
def test_the_cores_of_a_cgroup(tmp_path: pathlib.Path, content: str, expected: int | None) -> None:
    """`cpu.max` holds quota and period: their ratio, rounded up, or no limit."""
    path = tmp_path / "cpu.max"
    path.write_text(content)
    assert _read_cgroup_cores(path) == expected


def test_no_cgroup_sets_no_limit(tmp_path: pathlib.Path) -> None:
    """Outside Linux there is no such file."""
    assert _read_cgroup_cores(tmp_path / "cpu.max") is None
