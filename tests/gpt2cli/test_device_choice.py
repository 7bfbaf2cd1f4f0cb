"""Where a model runs: what is tried, what is not tried again, and what makes it tried anew."""

import json
import pathlib
from collections.abc import Callable

import pytest

from gpt2cli import device_choice
from gpt2cli.device_choice import DeviceChoice, find_device, forget_failure
from gpt2cli.engine import Device, Driver
from gpt2cli.errors import DeviceError, UsageError

CPU = Device("cpu")
NO_DRIVER = Driver(reason="no NVIDIA driver")
TWO = Driver(2, "13.0")


class Attempt:
    """Tries devices that do not run; `works` makes them run."""

    def __init__(self, *, works: bool = False) -> None:
        self.tried: list[Device] = []
        self.works = works

    def __call__(self, device: Device) -> None:
        self.tried.append(device)
        if not self.works:
            raise DeviceError("no cuBLAS")


@pytest.fixture(autouse=True)
def state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the folder of a user's own in which things are remembered."""
    monkeypatch.setattr(device_choice, "state_folder", lambda: tmp_path / "state")
    return tmp_path / "state"


def ask(driver: Driver) -> Callable[[], Driver]:
    """Return what the driver answers."""
    return lambda: driver


def find(asked: str, attempt: Attempt, driver: Driver = TWO) -> DeviceChoice:
    """Find a device where the driver answers so."""
    return find_device(asked, ask=ask(driver), attempt=attempt)


def test_the_cpu_asks_nobody() -> None:
    """Neither the driver nor ONNX Runtime."""
    attempt = Attempt()

    def fail() -> Driver:
        raise AssertionError("asked")

    assert find_device("cpu", ask=fail, attempt=attempt) == DeviceChoice(CPU)
    assert attempt.tried == []


def test_auto_without_a_device_tries_nothing_and_knows_why(state: pathlib.Path) -> None:
    """That is no failure, and nothing to be remembered."""
    attempt = Attempt()
    assert find("auto", attempt, NO_DRIVER) == DeviceChoice(CPU, "no NVIDIA driver")
    assert attempt.tried == []
    assert not state.exists()


def test_auto_takes_a_device_that_ran_a_step(state: pathlib.Path) -> None:
    """The first one."""
    attempt = Attempt(works=True)
    assert find("auto", attempt) == DeviceChoice(Device("cuda", 0))
    assert attempt.tried == [Device("cuda", 0)]
    assert not state.exists()


def test_auto_does_not_pay_for_a_failed_attempt_twice() -> None:
    """The second start knows the reason of the first, and both tell it."""
    attempt = Attempt()
    expected = DeviceChoice(CPU, "no cuBLAS", failed=True)
    assert [find("auto", attempt), find("auto", attempt)] == [expected, expected]
    assert len(attempt.tried) == 1


def test_after_an_hour_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not in the circumstances may have changed; a clock set back counts as that too."""
    attempt = Attempt()
    for now, tried in ((1000.0, 1), (4599.0, 1), (4601.0, 2), (4600.0, 3)):
        monkeypatch.setattr("gpt2cli.device_choice.time.time", lambda now=now: now)
        find("auto", attempt)
        assert len(attempt.tried) == tried


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PATH", "CUDA_PATH"])
def test_other_paths_or_devices_are_tried_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The user is mending it."""
    attempt = Attempt()
    find("auto", attempt)
    monkeypatch.setenv(name, "/elsewhere")
    find("auto", attempt)
    assert len(attempt.tried) == 2


def test_packages_that_came_or_went_are_tried_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """`pip install` of the libraries changes NVIDIA's folder."""
    monkeypatch.setattr("gpt2cli.device_choice.sysconfig.get_path", lambda name: str(tmp_path))
    attempt = Attempt()
    find("auto", attempt)
    (tmp_path / "nvidia").mkdir()
    find("auto", attempt)
    assert len(attempt.tried) == 2


def test_another_driver_is_tried_at_once() -> None:
    """Or another number of devices."""
    attempt = Attempt()
    find("auto", attempt)
    find("auto", attempt, Driver(2, "13.1"))
    find("auto", attempt, Driver(1, "13.1"))
    assert len(attempt.tried) == 3


@pytest.mark.parametrize("asked", ["cuda", "cuda:1"])
def test_who_names_a_device_has_it_tried_every_time(asked: str) -> None:
    """Whatever failed before."""
    attempt = Attempt()
    find("auto", attempt)
    for _ in range(2):
        with pytest.raises(DeviceError, match="no cuBLAS"):
            find(asked, attempt)
    assert len(attempt.tried) == 3


def test_a_named_device_that_runs_lets_auto_try_again() -> None:
    """What is mended is used at once."""
    attempt = Attempt()
    find("auto", attempt)
    attempt.works = True
    assert find("cuda:1", attempt) == DeviceChoice(Device("cuda", 1))
    assert find("auto", attempt) == DeviceChoice(Device("cuda", 0))


def test_a_failure_can_be_forgotten() -> None:
    """The doctor does so."""
    attempt = Attempt()
    forget_failure()
    find("auto", attempt)
    forget_failure()
    find("auto", attempt)
    assert len(attempt.tried) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"failed_at": "x"}', b"\xff", b'{"failed_at": ' + b"9" * 401 + b"}"],
)
def test_a_damaged_memory_is_none(state: pathlib.Path, content: bytes) -> None:
    """It is tried, and remembered anew."""
    state.mkdir()
    (state / "cuda.json").write_bytes(content)
    attempt = Attempt()
    find("auto", attempt)
    find("auto", attempt)
    assert len(attempt.tried) == 1


def test_a_memory_that_cannot_be_kept_costs_an_attempt_each_time(state: pathlib.Path) -> None:
    """And no error."""
    state.write_bytes(b"a file in the folder's place")
    attempt = Attempt()
    for _ in range(2):
        assert find("auto", attempt).reason == "no cuBLAS"
    forget_failure()
    assert len(attempt.tried) == 2


def test_no_variable_is_written_down(state: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest of the circumstances is enough."""
    monkeypatch.setenv("PATH", "/secret")
    find("auto", Attempt())
    kept = json.loads((state / "cuda.json").read_bytes())
    assert sorted(kept) == ["circumstances", "failed_at", "reason"]
    assert "secret" not in json.dumps(kept)


def test_an_unknown_device_is_a_usage_error() -> None:
    """As everywhere."""
    with pytest.raises(UsageError, match="expected auto, cpu, cuda or cuda:N"):
        find("gpu", Attempt())
