"""Where a model runs: what was asked, what the driver and a tried step say, what failed lately."""

import hashlib
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from export.small_files import ReadError, read_object
from gpt2cli.engine import (
    AUTO,
    RUNTIME_VERSION,
    Device,
    Driver,
    ask_driver,
    require_device,
    try_cuda,
)
from gpt2cli.errors import DeviceError
from gpt2cli.store.places import keep_json, state_folder

_TRY_AGAIN_SECONDS: Final = 3600.0
# Where libraries and devices come from: who changes one of these tries to mend it.
_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PATH", "CUDA_PATH")


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Where the model is to run. `reason`: why `auto` does not take CUDA.

    `failed`: a device is there, which the user would rather have seen used.
    """

    device: Device
    reason: str | None = None
    failed: bool = False


def find_device(
    asked: str,
    *,
    ask: Callable[[], Driver] = ask_driver,
    attempt: Callable[[Device], None] = try_cuda,
) -> DeviceChoice:
    """Return where a model runs for `--device`: CUDA only where a step has just run there.

    What `auto` cannot use it does not try again for an hour, unless something has changed.

    Raises:
        UsageError: if `asked` is no device.
        DeviceError: if CUDA was asked for and cannot be used; with the reason.
    """
    if asked != AUTO:
        device = require_device(asked, ask=ask)
        if device.kind == "cuda":
            attempt(device)
            forget_failure()
        return DeviceChoice(device)
    driver = ask()
    if not driver.devices:
        return DeviceChoice(Device("cpu"), driver.reason)
    failure = _recall_failure(driver)
    if failure is None:
        try:
            attempt(Device("cuda"))
            return DeviceChoice(Device("cuda"))
        except DeviceError as error:
            failure = error.fault
            _remember_failure(failure, driver)
    return DeviceChoice(Device("cpu"), failure, failed=True)


def _recall_failure(driver: Driver) -> str | None:
    """Return why CUDA failed lately, where all is as it was then."""
    try:
        kept = read_object(_path())
        fresh = 0 <= time.time() - kept["failed_at"] < _TRY_AGAIN_SECONDS
        same = kept["circumstances"] == _describe_circumstances(driver)
        return str(kept["reason"]) if fresh and same else None
    except (ReadError, TypeError, KeyError):
        return None


def _remember_failure(reason: str, driver: Driver) -> None:
    circumstances = _describe_circumstances(driver)
    kept = {"reason": reason, "failed_at": time.time(), "circumstances": circumstances}
    keep_json(_path(), kept)


def forget_failure() -> None:
    """Let `auto` try CUDA again at the next start."""
    try:
        _path().unlink(missing_ok=True)
    except OSError:
        return


def _describe_circumstances(driver: Driver) -> str:
    """Return a digest of what decides whether CUDA runs: driver, ONNX Runtime, libraries, paths."""
    packages = Path(sysconfig.get_path("purelib"))
    times = [_find_time(folder) for folder in (packages, packages / "nvidia")]
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    facts = [repr(driver), RUNTIME_VERSION, sys.prefix, *times, *variables]
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _find_time(folder: Path) -> str:
    """Return when files last came or went there."""
    try:
        return str(folder.stat().st_mtime_ns)
    except OSError:
        return ""


def _path() -> Path:
    return state_folder() / "cuda.json"
