"""Which device runs the model, and how many cores may help."""

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gpt2cli.errors import DeviceError, UsageError

AUTO: Final = "auto"
CUDA_PIP: Final = "pip install 'gpt2[cuda]'"


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


def choose_device(asked: str) -> Device:
    """Return the device for `auto`, `cpu`, `cuda` or `cuda:N`.

    `auto` asks the NVIDIA driver, not ONNX Runtime: a provider that fails to load costs time and
    prints.

    Raises:
        UsageError: if `asked` is none of these.
        DeviceError: if CUDA was asked for and no such device answers.
    """
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", asked)
    if match is None:
        raise UsageError(f"--device: expected auto, cpu, cuda or cuda:N, found {asked!r}")
    if asked == "cpu":
        return Device("cpu")
    index = int(match[1] or 0)
    devices, reason = _count_cuda_devices()
    if asked == AUTO:
        return Device("cuda") if devices else Device("cpu")
    if index >= devices:
        raise DeviceError(
            f"--device {asked}: {reason or f'there are {devices} CUDA devices, counted from 0'}; "
            f"use --device cpu, or install an NVIDIA driver and: {CUDA_PIP}"
        )
    return Device("cuda", index)


def _count_cuda_devices() -> tuple[int, str | None]:
    """Ask the driver library for its devices; if there are none, say why."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return 0, f"no NVIDIA driver ({name}) was found"
    count = ctypes.c_int(0)
    code: int = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        return 0, f"the NVIDIA driver answered with error {code}"
    return count.value, None if count.value else "the NVIDIA driver knows no device"


def count_cores() -> int:
    """Return how many cores this process may use: its affinity, and its cgroup's limit."""
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux only
        allowed = len(os.sched_getaffinity(0))
    quota = _read_cgroup_cores(Path("/sys/fs/cgroup/cpu.max"))
    return max(1, min(allowed, quota or allowed))


def _read_cgroup_cores(path: Path) -> int | None:
    """Return the whole cores that a cgroup v2 `cpu.max` grants; None if it sets no limit."""
    try:
        quota, period = path.read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return None
