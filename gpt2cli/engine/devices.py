"""Chooses the device: by what was asked, and what the NVIDIA driver says."""

import ctypes
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpt2cli.config import AUTO
from gpt2cli.errors import DeviceError, UsageError

CUDA_PIP: Final = "pip install 'onnxruntime-gpu[cuda,cudnn]'"
_DRIVER_ERRORS: Final[Mapping[int, str]] = {  # CUresult, in cuda.h
    100: "there is no CUDA device, or CUDA_VISIBLE_DEVICES hides it (error 100)",
    101: "CUDA_VISIBLE_DEVICES names a device that is not there (error 101)",
    802: "the system is not ready: is nvidia-fabricmanager running? (error 802)",
    803: "its library and its kernel module are of two versions; restart (error 803)",
    804: "this device cannot run a newer CUDA than its kernel module (error 804)",
}


@dataclass(frozen=True, slots=True)
class Device:
    """One device: `kind` and `index` as ONNX Runtime takes them."""

    kind: Literal["cpu", "cuda"]
    index: int = 0

    @property
    def provider(self) -> str:
        """The execution provider's name."""
        return "CPUExecutionProvider" if self.kind == "cpu" else "CUDAExecutionProvider"

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"cuda:{self.index}"


@dataclass(frozen=True, slots=True)
class Driver:
    """What NVIDIA's driver library says; `reason` tells why it has no device."""

    devices: int = 0
    cuda_version: str | None = None  # the newest CUDA that it runs
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Where the model is to run. `reason`: why `auto` does not take CUDA.

    `failed`: there is a device that could not be used, which the user should know.
    """

    device: Device
    reason: str | None = None
    failed: bool = False


def ask_driver() -> Driver:
    """Ask the driver library for its devices; if there are none, say why.

    The driver and not ONNX Runtime: a provider that fails to load costs time and prints.
    """
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        # glibc's words, or Windows' number, for a library that is not there.
        absent = "cannot open shared object file" in str(error)
        if absent or getattr(error, "winerror", 0) == 126:
            return Driver(reason=f"no NVIDIA driver ({name}) was found")
        return Driver(reason=f"the NVIDIA driver {name} cannot be loaded ({error})")
    try:
        return _ask_library(library)
    except AttributeError as error:  # a stub, or something else by that name
        return Driver(reason=f"{name} is not an NVIDIA driver ({error})")


def find_device(
    asked: str, *, attempt: Callable[[Device], None], ask: Callable[[], Driver] = ask_driver
) -> DeviceChoice:
    """Return where a model runs for `auto`, `cpu`, `cuda` or `cuda:N`.

    That the driver has a device does not say yet that it can run anything: `attempt` tries.
    """
    if asked != AUTO:
        device = require_device(asked, ask=ask)
        if device.kind == "cuda":
            attempt(device)
        return DeviceChoice(device)
    driver = ask()
    if not driver.devices:
        return DeviceChoice(Device("cpu"), driver.reason)
    try:
        attempt(Device("cuda"))
    except DeviceError as error:
        return DeviceChoice(Device("cpu"), error.fault, failed=True)
    return DeviceChoice(Device("cuda"))


def require_device(asked: str, *, ask: Callable[[], Driver] = ask_driver) -> Device:
    """Return the device for `cpu`, `cuda` or `cuda:N`, if the driver has it."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", asked)
    if match is None:
        raise UsageError(option="device", expected="auto, cpu, cuda or cuda:N", found=repr(asked))
    if asked == "cpu":
        return Device("cpu")
    index, driver = int(match[1] or 0), ask()
    if index >= driver.devices:
        known = "is 1 CUDA device" if driver.devices == 1 else f"are {driver.devices} CUDA devices"
        reason = driver.reason or f"there {known}, counted from 0"
        mended = "" if driver.devices else f", or install an NVIDIA driver and: {CUDA_PIP}"
        raise DeviceError(reason, f"use {{device}} cpu{mended}", option="device", value=asked)
    return Device("cuda", index)


def _ask_library(library: Any) -> Driver:
    count, version = ctypes.c_int(0), ctypes.c_int(0)
    library.cuDriverGetVersion(ctypes.byref(version))  # this call works without cuInit
    told = f"{version.value // 1000}.{version.value % 1000 // 10}"
    code: int = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if code:
        meaning = _DRIVER_ERRORS.get(code, f"error {code}")
        return Driver(0, told, f"the NVIDIA driver answers: {meaning}")
    return Driver(count.value, told, None if count.value else "the NVIDIA driver finds no device")
