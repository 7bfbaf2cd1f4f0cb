"""A scripted engine: logits from any function of the ids, a record of its calls, and its rules.

It asserts what an engine may assume: slots are 0 … n−1, never more than `slot_limit`, never longer
than `n_positions`.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpt2cli.model_folder import ModelShape

Logits: TypeAlias = NDArray[np.float32]
LogitsOf: TypeAlias = Callable[[Sequence[int]], Logits]  # all ids of a slot -> [V]


@dataclass
class SavedIds:
    """A copy of the first ids of a slot."""

    ids: list[int]

    @property
    def size(self) -> int:
        """As if an id left a byte."""
        return len(self.ids)


class ScriptedEngine:
    """A LogitsEngine without a model."""

    keeps_cuts = True
    most_steps = 8
    reads_together = True

    def __init__(
        self,
        logits_of: LogitsOf,
        *,
        n_positions: int = 16,
        vocab_size: int = 257,
        max_slots: int,
        slot_limit: int | None = None,
    ) -> None:
        """`slot_limit`: for a search that needs more than `max_slots`; None: no more either."""
        self.shape = ModelShape(1, 1, 8, 8, n_positions, vocab_size)
        self.max_slots = max_slots
        self.slot_limit = slot_limit or max_slots
        self.slots: list[list[int]] = []
        self.saved_room = 10 * n_positions
        self.calls: list[tuple[Any, ...]] = []
        self._logits_of = logits_of
        self._decoded = np.empty((0, 0), np.float32)

    def count(self, name: str) -> int:
        """Return how often a method was called."""
        return sum(call[0] == name for call in self.calls)

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
        """Append ids to a slot; logits after the ids at `positions`."""
        self.calls.append(("extend", slot, tuple(ids)))
        assert ids
        self._open(slot)
        start = len(self.slots[slot])
        self.slots[slot] += ids
        self._check_length(slot)
        return np.stack([self._logits_of(self.slots[slot][: start + p + 1]) for p in positions])

    def read_together(self, texts: Sequence[Sequence[int]]) -> list[Logits]:
        """Return the logits after every id of each text."""
        self.calls.append(("read_together", *map(tuple, texts)))
        assert not self.slots
        assert max(map(len, texts)) < self.shape.n_positions
        return [np.stack([self._logits_of(t[: i + 1]) for i in range(len(t))]) for t in texts]

    def decode(self, ids: Sequence[int]) -> Logits:
        """Append one id to every slot; the array is spoilt by the next call, as the engine's is."""
        self.calls.append(("decode", tuple(ids)))
        assert len(ids) == len(self.slots) > 0
        for slot, token_id in enumerate(ids):
            self.slots[slot].append(token_id)
            self._check_length(slot)
        self._decoded.fill(np.nan)
        self._decoded = np.stack([self._logits_of(slot) for slot in self.slots])
        return self._decoded

    def verify(self, slot: int, ids: Sequence[int]) -> Logits:
        """Append ids to a slot; logits after each."""
        self.calls.append(("verify", slot, tuple(ids)))
        assert 1 < len(ids) <= self.most_steps
        start = len(self.slots[slot])
        self.slots[slot] += ids
        self._check_length(slot)
        return np.stack(
            [self._logits_of(self.slots[slot][: start + i + 1]) for i in range(len(ids))]
        )

    def fork(self, source: int, target: int, length: int | None = None) -> None:
        """Copy a slot, or its first ids."""
        self.calls.append(("fork", source, target))
        assert source != target
        copied = self.slots[source][:length]
        assert length is None or len(copied) == length
        self._open(target)
        self.slots[target] = copied

    def save(self, slot: int, length: int) -> "SavedIds | None":
        """Copy a slot's first ids, if there is room."""
        self.calls.append(("save", slot, length))
        assert 0 < length <= len(self.slots[slot])
        if length > self.saved_room:
            return None
        self.saved_room -= length
        return SavedIds(self.slots[slot][:length])

    def load(self, saved: "SavedIds", slot: int, length: int) -> None:
        """Let a slot begin with a copy."""
        self.calls.append(("load", slot, length))
        assert 0 < length <= len(saved.ids)
        self._open(slot)
        self.slots[slot] = saved.ids[:length]

    def drop(self, saved: "SavedIds") -> None:
        """Give a copy up; it is spoilt."""
        self.calls.append(("drop", len(saved.ids)))
        self.saved_room += len(saved.ids)
        saved.ids.clear()

    def rewind(self, slot: int, length: int) -> None:
        """Forget a slot's ids from `length` on."""
        self.calls.append(("rewind", slot, length))
        assert length <= len(self.slots[slot])
        del self.slots[slot][length:]

    def free(self, slot: int) -> None:
        """Close a slot; the last one moves into its place."""
        self.calls.append(("free", slot))
        self.slots[slot] = self.slots[-1]
        self.slots.pop()

    def _open(self, slot: int) -> None:
        assert 0 <= slot <= len(self.slots)
        if slot == len(self.slots):
            assert slot < self.slot_limit
            self.slots.append([])

    def _check_length(self, slot: int) -> None:
        assert len(self.slots[slot]) <= self.shape.n_positions


def prefer(vocab_size: int, *token_ids: int) -> Logits:
    """Return logits that prefer these ids in this order."""
    logits = np.zeros(vocab_size, np.float32)
    logits[list(token_ids)] = np.arange(len(token_ids), 0, -1)
    return logits


def scatter(vocab_size: int, *, often: Sequence[int] = ()) -> LogitsOf:
    """Return a function to logits that look random and depend on every id before them.

    The ids in `often` are nearly always the best.
    """

    def logits_of(ids: Sequence[int]) -> Logits:
        key = zlib.crc32(np.array(ids, "<i8").tobytes())
        words = np.random.Philox(key=key).random_raw(vocab_size) >> np.uint64(40)  # 24 bits
        logits = words.astype(np.float32) / np.float32(2**22)  # 0 … 4
        logits[list(often)] += np.float32(6)
        return logits

    return logits_of
