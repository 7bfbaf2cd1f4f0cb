"""How many records run side by side where nobody says."""

import os
from typing import Final

from gpt2cli.model_folder import ModelShape

_PER_CORE: Final = 8  # beyond this a CPU's decode rate hardly grows
_MOST: Final = 32
_MEMORY_SHARE: Final = 0.25  # of what is free, for a cache in which every slot is full
_ELEMENT_BYTES: Final = 4


def choose_slots(shape: ModelShape, cores: int) -> int:
    """Return a batch size for this many cores that the free memory can hold."""
    slot_bytes = 2 * shape.n_layer * shape.n_embd * shape.n_positions * _ELEMENT_BYTES
    fitting = int(_find_free_bytes() * _MEMORY_SHARE) // slot_bytes
    return max(1, min(_PER_CORE * cores, fitting, _MOST))


def _find_free_bytes() -> int:
    """Return the free physical memory; where that cannot be told, 4 GB."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4 << 30
