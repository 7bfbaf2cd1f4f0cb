"""How many records run side by side where nobody says."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpt2cli.engine.devices import Device
from gpt2cli.model_folder import ModelShape

# 124M, fp32, 1,024 tokens after prompts of 8 words on one thread of two shared cores: 5.2 CPU-s at
# batch size 8, 3.9 at 16, 3.6 at 32. With prompts of 8 to 400 words 32 gains 4 %, for 600 MB.
_FEWEST: Final = 16
_PER_CORE: Final = 8
_MOST: Final = 32
_MEMORY_SHARE: Final = 0.25  # of what is free, for a cache in which every slot is full
_ELEMENT_BYTES: Final = 4
_UNKNOWN_FREE_BYTES: Final = 4 << 30
_CONTAINER_LIMITS: Final = (  # of cgroup v2 and v1
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def find_free_bytes(root: Path = Path("/")) -> int:
    """Return the memory that can be had without swapping; where that cannot be told, 4 GB.

    `root` is where proc and sys are.
    """
    limits = (_read_limit(root / path) for path in _CONTAINER_LIMITS)
    told = (_read_available(root / "proc/meminfo"), *limits)
    return min((free for free in told if free is not None), default=_UNKNOWN_FREE_BYTES)


def choose_slots(
    shape: ModelShape,
    device: Device,
    cores: int,
    *,
    find_free: Callable[[], int] = find_free_bytes,
) -> int:
    """Return a batch size: on the CPU one for this many cores that the free memory can hold.

    How much memory another device has is not known here: what does not fit there is halved.
    """
    if device.kind != "cpu":
        return _MOST
    slot_bytes = 2 * shape.n_layer * shape.n_embd * shape.n_positions * _ELEMENT_BYTES
    fitting = int(find_free() * _MEMORY_SHARE) // slot_bytes
    return max(1, min(max(_FEWEST, _PER_CORE * cores), _MOST, fitting))


def _read_available(meminfo: Path) -> int | None:
    """Return Linux's own estimate, which counts what the page cache would give back (proc(5))."""
    try:
        lines = meminfo.read_text().splitlines()
        [kilobytes] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        return int(kilobytes) << 10
    except (OSError, ValueError, IndexError):
        return _read_physical()


def _read_physical() -> int | None:
    """Return the free pages: all that other systems tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _read_limit(path: Path) -> int | None:
    """Return what a container may use; None where it is `max` or nobody says."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
