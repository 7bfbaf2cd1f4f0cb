"""What this machine offers a process: processor, cores, memory, and installed packages."""

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

# The packages that are ONNX Runtime. They share one folder, so only one may be installed.
RUNTIMES: Final = ("onnxruntime", "onnxruntime-gpu")
ONE_RUNTIME_PIP: Final = (
    "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"
)
_UNKNOWN_FREE_BYTES: Final = 4 << 30
_CONTAINER_LIMITS: Final = (  # of cgroup v2 and v1
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def find_cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as Linux tells it, else as Python does; it may be vague."""
    with suppress(OSError), cpuinfo.open() as lines:  # of all cores: the first one says it
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        if name := next(names, ""):
            return name
    return platform.processor() or platform.machine()


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    from importlib import metadata  # takes 10 ms

    found = {}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def count_cores(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: its affinity, and its cgroup's limit."""
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux only
        allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = cpu_max.read_text().split()
        return max(1, min(allowed, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return allowed


def find_free_bytes(root: Path = Path("/")) -> int:
    """Return the memory that is available without swapping; 4 GB where it is unknown.

    `root` is where proc and sys are.
    """
    limits = (_read_limit(root / path) for path in _CONTAINER_LIMITS)
    told = (_read_available(root / "proc/meminfo"), *limits)
    return min((free for free in told if free is not None), default=_UNKNOWN_FREE_BYTES)


def read_peak(status: Path = Path("/proc/self/status")) -> int | None:
    """Return the largest resident memory so far in bytes, mapped files included; None on Windows.

    Linux's VmHWM (proc(5)): `ru_maxrss` there may be that of the process that started this one.
    """
    kilobytes = _read_kilobytes(status, "VmHWM:")
    if kilobytes is not None or sys.platform == "win32":
        return kilobytes and kilobytes << 10
    import resource  # which Windows lacks

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def reset_peak() -> None:
    """Reset the peak, where that is possible: on Linux (proc(5), clear_refs)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_available(meminfo: Path) -> int | None:
    """Return Linux's own estimate, which includes what the page cache would free (proc(5))."""
    kilobytes = _read_kilobytes(meminfo, "MemAvailable:")
    if kilobytes is not None:
        return kilobytes << 10
    try:  # the free pages: other systems say no more
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _read_kilobytes(path: Path, name: str) -> int | None:
    """Return a figure from one of Linux's lists, `NAME:  123 kB`."""
    try:
        [line] = [line for line in path.read_text().splitlines() if line.startswith(name)]
        return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _read_limit(path: Path) -> int | None:
    """Return the memory limit of a container; None where it is `max` or unknown."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
