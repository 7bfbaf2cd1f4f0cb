"""What machine this is, what is installed, and how much memory this process has had."""

import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def find_cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as Linux tells it, else as Python does; it may be vague."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    from importlib import metadata  # takes 10 ms

    found = {}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def read_peak(status: Path = Path("/proc/self/status")) -> int | None:
    """Return the largest resident memory so far in bytes, mapped files included; None on Windows.

    Linux's VmHWM (proc(5)): `ru_maxrss` there may be that of the process that started this one.
    """
    try:
        [line] = [li for li in status.read_text().splitlines() if li.startswith("VmHWM:")]
        return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        return _read_peak_of_others()


def reset_peak() -> None:
    """Let the peak begin anew, where that can be done: on Linux (proc(5), clear_refs)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_peak_of_others() -> int | None:
    if sys.platform == "win32":
        return None
    import resource  # which Windows lacks

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
