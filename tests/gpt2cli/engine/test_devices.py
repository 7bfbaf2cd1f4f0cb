"""Which device is chosen, what is tried, and why one is refused."""

import ctypes
import pathlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from gpt2cli.engine.devices import (
    Device,
    DeviceChoice,
    Driver,
    ask_driver,
    find_device,
    require_device,
)
from gpt2cli.errors import DeviceError, UsageError

CPU: Final = Device("cpu")
TWO: Final = Driver(2, "13.0")


class FakeDriver:
    """Stands for the CUDA driver library with `count` devices; `code` is what cuInit answers."""

    def __init__(self, count: int, code: int = 0, version: int = 13000) -> None:
        self._count = count
        self._code = code
        self._version = version

    def cuDriverGetVersion(self, pointer: Any) -> int:  # noqa: N802  # the driver's own name
        pointer._obj.value = self._version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        assert flags == 0
        return self._code

    def cuDeviceGetCount(self, pointer: Any) -> int:  # noqa: N802
        pointer._obj.value = self._count
        return 0


class Attempt:
    """Tries devices that do not run; `works` makes them run."""

    def __init__(self, *, works: bool = False) -> None:
        self.tried: list[Device] = []
        self._works = works

    def __call__(self, device: Device) -> None:
        self.tried.append(device)
        if not self._works:
            raise DeviceError("no cuBLAS")


Install = Callable[[FakeDriver | None], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes the system have this driver library, or none."""

    def install_driver(driver: FakeDriver | None) -> None:
        def load(name: str) -> FakeDriver:
            assert "cuda" in name
            if driver is None:
                raise OSError("cannot open shared object file")
            return driver

        monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", load)

    return install_driver


def test_the_cpu_asks_nobody() -> None:
    attempt = Attempt()

    def fail() -> Driver:
        raise AssertionError("asked")

    assert find_device("cpu", ask=fail, attempt=attempt) == DeviceChoice(CPU)
    assert attempt.tried == []


def test_auto_without_a_device_tries_nothing_and_knows_why() -> None:
    attempt = Attempt()
    choice = find_device("auto", ask=lambda: Driver(reason="no driver"), attempt=attempt)
    assert (choice, attempt.tried) == (DeviceChoice(CPU, "no driver"), [])


def test_auto_takes_the_first_device_if_a_step_has_run_there() -> None:
    """Where it fails the CPU is taken, and the reason is told."""
    attempt = Attempt(works=True)
    assert find_device("auto", ask=lambda: TWO, attempt=attempt) == DeviceChoice(Device("cuda"))
    assert attempt.tried == [Device("cuda", 0)]
    failed = find_device("auto", ask=lambda: TWO, attempt=Attempt())
    assert failed == DeviceChoice(CPU, "no cuBLAS", failed=True)


def test_a_named_device_runs_there_or_fails() -> None:
    """It is tried, and the CPU never takes its place."""
    attempt = Attempt(works=True)
    found = find_device("cuda:1", ask=lambda: TWO, attempt=attempt)
    assert (found, attempt.tried) == (DeviceChoice(Device("cuda", 1)), [Device("cuda", 1)])
    with pytest.raises(DeviceError, match="no cuBLAS"):
        find_device("cuda", ask=lambda: TWO, attempt=Attempt())


@pytest.mark.parametrize("asked", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cuda:0 "])
def test_an_unknown_device_is_a_usage_error(asked: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_device(asked, attempt=Attempt())
    assert str(caught.value) == f"device: expected auto, cpu, cuda or cuda:N, found {asked!r}"


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (None, "no NVIDIA driver"),
        (FakeDriver(0), "the NVIDIA driver finds no device"),
        (FakeDriver(1, code=100), "the NVIDIA driver answers: there is no CUDA device, or"),
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


def test_what_is_no_driver_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A broken library by the loader's own words, a stub without the functions by its name."""
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"")
    load = ctypes.CDLL
    monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", lambda name: load(str(library)))
    reason = ask_driver().reason or ""
    assert reason.startswith("the NVIDIA driver libcuda.so.1 cannot be loaded (")
    assert reason.endswith("libcuda.so.1: file too short)")
    monkeypatch.setattr("gpt2cli.engine.devices.ctypes.CDLL", lambda name: object())
    assert "libcuda.so.1 is not an NVIDIA driver (" in (ask_driver().reason or "")


def test_the_driver_tells_which_cuda_it_runs(install: Install) -> None:
    """12040 is 12.4."""
    install(FakeDriver(1, version=12040))
    assert ask_driver() == Driver(1, "12.4", None)
