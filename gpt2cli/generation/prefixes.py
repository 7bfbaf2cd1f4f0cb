"""Keeps prefixes that several prompts begin with, beside the slots, while a run lasts."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpt2cli.generation.interfaces import Counts, LogitsEngine, Saved
from gpt2cli.generation.reading import count_equal
from gpt2cli.generation.sequence import TokenSequence

_REMEMBERED: Final = 32  # prompts, by their ids alone
_FEWEST_KEPT: Final = 16  # ids that are worth a copy: on two cores it costs less than one of them


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Ids that were read, and a copy of what they left in the KV cache."""

    ids: Sequence[int]
    saved: Saved


class Prefixes:
    """The prefixes of a run, the one that was used last at the end; the engine bounds them.

    What the next prompts will share is not known: what two of the last ones begin with is kept.
    """

    def __init__(self, engine: LogitsEngine, counts: Counts) -> None:
        """Begin without any; `counts` is told how much memory they take."""
        self._engine = engine
        self._counts = counts
        self._prompts: deque[Sequence[int]] = deque(maxlen=_REMEMBERED)
        self._kept: list[Prefix] = []

    def find(self, sequence: TokenSequence, *, more_than: int) -> tuple[Prefix | None, int]:
        """Return the prefix that has the most ids of a prompt, and how many they are."""
        best, most = None, more_than
        for prefix in self._kept:
            shared = count_equal(prefix.ids, sequence.window)
            if shared > most:
                best, most = prefix, shared
        if best is not None:
            self._kept.remove(best)
            self._kept.append(best)
        return best, most

    def learn(self, sequence: TokenSequence, slot: int) -> None:
        """Take note of a prompt that was read into a slot; keep what it has in common, if it pays.

        A prefix that the new one begins with is dropped.
        """
        if any(sequence.stepped) or not self._engine.keeps_cuts:
            return
        ids = tuple(sequence.window)
        common = _find_common(ids, self._prompts)
        self._prompts.append(ids)
        known = [count_equal(prefix.ids, ids) for prefix in self._kept]
        if common < max(known, default=0) + _FEWEST_KEPT:
            return
        for prefix, shared in zip(list(self._kept), known, strict=True):
            if shared == len(prefix.ids):
                self._drop(prefix)
        self._keep(ids[:common], slot)

    def _keep(self, ids: Sequence[int], slot: int) -> None:
        """Copy the ids' part of a slot; where there is no room, those not used for longest go."""
        saved = self._engine.save(slot, len(ids))
        while saved is None and self._kept:
            self._drop(self._kept[0])
            saved = self._engine.save(slot, len(ids))
        if saved is not None:
            self._kept.append(Prefix(ids, saved))
            size = sum(prefix.saved.size for prefix in self._kept)
            self._counts.kept_bytes = max(self._counts.kept_bytes, size)

    def close(self) -> None:
        """Give all of them up."""
        for prefix in list(self._kept):
            self._drop(prefix)

    def _drop(self, prefix: Prefix) -> None:
        self._kept.remove(prefix)
        self._engine.drop(prefix.saved)


def _find_common(ids: Sequence[int], others: Iterable[Sequence[int]]) -> int:
    """Return how many of the ids any of the others begins with."""
    most = 0
    for other in others:
        if other[: most + 1] == ids[: most + 1]:  # most of them end here: this must be quick
            most = count_equal(other, ids)
    return most
