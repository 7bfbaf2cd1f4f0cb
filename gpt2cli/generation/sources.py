"""Finds what of a window is computed already: in the slot of another sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.reading import count_shared, find_start
from gpt2cli.generation.sequence import TokenSequence

_FEWEST_COPIED: Final = 8  # ids that are worth a copy of their part of the KV cache


@dataclass(frozen=True, slots=True)
class Source:
    """A slot whose first `length` ids a sequence begins with; 0: there is none."""

    slot: int = 0
    length: int = 0
    logits: NDArray[np.float32] | None = None  # [1, V], after them, if they are the whole window


def find_source(
    sequence: TokenSequence,
    held: Sequence[TokenSequence],
    free: Sequence[int],
    *,
    cuts: bool,
) -> Source:
    """Return the slot that holds the most of a sequence's window; of equals one that is free.

    `held` is the sequence of each open slot, `free` the slots that need not be copied, since the
    sequence can take them; `cuts`: whether a text has the same bits in any pieces.
    """
    best = Source()
    for slot in (*free, *(slot for slot in range(len(held)) if slot not in free)):
        found = _share(sequence, held[slot], slot, cuts=cuts)
        is_worth = found.logits is not None or slot in free or found.length >= _FEWEST_COPIED
        if is_worth and found.length > best.length:
            best = found
    return best


def _share(sequence: TokenSequence, held: TokenSequence, slot: int, *, cuts: bool) -> Source:
    ids, stepped = held.window[: held.fed], held.stepped[: held.fed]
    shared = count_shared(ids, stepped, sequence.window, sequence.stepped)
    is_whole = shared == len(sequence.window) == len(held.prefix)
    if is_whole and held.prefix_logits is not None:
        return Source(slot, shared, held.prefix_logits)
    return Source(slot, find_start(sequence.stepped, shared, cuts=cuts))
