"""Finds what of a window is computed already: in the slot of another sequence, or in a prefix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.interfaces import Saved
from gpt2cli.generation.prefixes import Prefixes
from gpt2cli.generation.reading import count_shared, find_start
from gpt2cli.generation.sequence import TokenSequence

_COPY_COST: Final = 8  # ids: to read so few more costs no more than to copy a part of the cache


@dataclass(frozen=True, slots=True)
class Source:
    """A slot or a saved copy that begins with `length` ids of a sequence; 0: there is none."""

    slot: int = 0
    length: int = 0
    saved: Saved | None = None  # the copy, if it is none of a slot
    logits: NDArray[np.float32] | None = None  # [1, V], after them, if they are the whole window


def find_source(
    sequence: TokenSequence,
    held: Sequence[TokenSequence],
    free: Sequence[int],
    prefixes: Prefixes,
    *,
    cuts: bool,
) -> Source:
    """Return what holds the most of a sequence's window; of equals a slot that is free.

    `held` is the sequence of each open slot, `free` the slots that need not be copied, since the
    sequence can take them; `cuts`: whether a text has the same bits in any pieces.
    """
    best, most = Source(), 0  # most: its ids, less what copying them costs
    for slot in (*free, *(slot for slot in range(len(held)) if slot not in free)):
        more = sequence.window[: best.length + 1]
        if held[slot].window[: len(more)] != more:  # most of them end here: this must be quick
            continue
        found = _share(sequence, held[slot], slot, cuts=cuts)
        is_whole = found.length == len(sequence.window)
        gain = found.length - (0 if slot in free or is_whole else _COPY_COST)
        if gain > most:
            best, most = found, gain
    if best.logits is not None or any(sequence.stepped):
        return best
    prefix, shared = prefixes.find(sequence, more_than=most + _COPY_COST)
    if prefix is None:
        return best
    return Source(0, find_start(sequence.stepped, shared, cuts=cuts), prefix.saved)


def _share(sequence: TokenSequence, held: TokenSequence, slot: int, *, cuts: bool) -> Source:
    alike = count_shared(held.window, held.stepped, sequence.window, sequence.stepped)
    shared = min(alike, held.fed)
    is_whole = shared == len(sequence.window) == len(held.prefix)
    if is_whole and held.prefix_logits is not None:
        return Source(slot, shared, logits=held.prefix_logits)
    return Source(slot, find_start(sequence.stepped, shared, cuts=cuts))
