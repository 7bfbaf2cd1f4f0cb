"""The engine: token ids in, logits out, with the KV cache kept in slots.

Active slots are always 0 … n−1. A slot's length is the number of tokens in its cache.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.engine.cache import DeviceCache, HostCache, Saved
from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import MAKING_ROOM, failures_told
from gpt2cli.engine.huge_pages import HugePages
from gpt2cli.engine.session import (
    RUNTIME_VERSION,
    cache_dtype,
    choose_graph,
    count_further_steps,
    open_session,
)
from gpt2cli.engine.step import Step
from gpt2cli.errors import DeviceFullError
from gpt2cli.machine import count_cores
from gpt2cli.model_folder import ModelFolder

Logits = NDArray[np.float32]

_BLOCK: Final = 64  # what a block of ids in attention is a multiple of, if 2 head_dim is


@dataclass(frozen=True, slots=True)
class Identities:
    """Which ways of computing a text give the same bits on this machine."""

    rows: bool  # a row alone and beside others
    cuts: bool  # ids that are read in one call and in several
    steps: bool | None  # single steps and several in one call; None: it was not measured
    together: bool  # texts that are read in one call, and each in its own


class Engine:
    """Drives one model folder's graph on one device."""

    def __init__(
        self,
        folder: ModelFolder,
        device: Device,
        *,
        max_slots: int = 8,
        threads: int | None = None,
        verifying: bool = False,
        alternating: bool = False,
        cache: HostCache | DeviceCache | None = None,
    ) -> None:
        """Load the graph; `cache` stands in for the device's own kind of cache in tests.

        `verifying`: so that `verify` can be called; on the CPU, for folders with such a graph.
        `alternating`: another engine computes between its calls.
        """
        self.shape = folder.shape
        self.max_slots = max_slots  # how many are to be active at once, as a rule
        self.runtime_version = RUNTIME_VERSION  # another one may compute other bits
        self.device = device
        self.threads = threads or count_cores()
        self.graph_file = choose_graph(folder, device, verifying=verifying)
        self._huge_pages = HugePages() if device.kind == "cpu" else None  # before there are weights
        self._session = open_session(
            folder, device, self.threads, verifying=verifying, alternating=alternating
        )
        element = cache_dtype(self._session)
        if cache is not None:
            self._cache = cache
        elif device.kind == "cpu":
            self._cache = HostCache(folder.shape, slots=max_slots, element=element)
        else:
            self._cache = DeviceCache(folder.shape, device, rows=max_slots, element=element)
        self._lengths: list[int] = []
        self._step: Step | None = None
        self._verifying: dict[int, Step] = {}  # by the number of steps, all for one slot
        self._most_steps = 1 + (count_further_steps(self._session) if verifying else 0)
        on_cpu = device.kind == "cpu"
        # What is assumed until it is measured here. Nothing is on CUDA, where no GPU was at hand.
        self.identities = Identities(on_cpu, on_cpu, on_cpu and self._most_steps > 1, on_cpu)

    @property
    def slot_limit(self) -> int:
        """How many slots there can be for one that needs more; on the CPU they grow with need."""
        return sys.maxsize if self.device.kind == "cpu" else self.max_slots

    @property
    def most_steps(self) -> int:
        """How many ids `verify` takes at once; 1 where that would give other bits."""
        return self._most_steps if self.identities.steps else 1

    @property
    def keeps_cuts(self) -> bool:
        """Whether ids that are read have the same bits in one call and in several."""
        return self.identities.cuts

    @property
    def reads_together(self) -> bool:
        """Whether texts that are read in one call have the bits of each by itself."""
        return self.identities.together

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of tokens in each active slot."""
        return tuple(self._lengths)

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
        """Append ids to a slot and return the logits after those at `positions`: [K, V] float32.

        `slot` is an active slot or the next free one; `positions` are indices of `ids`. The row is
        computed by itself, so that no neighbour can change its bits.
        """
        if slot == len(self._lengths):
            assert slot < self.slot_limit
            self._lengths.append(0)
        found: dict[int, NDArray[np.float32]] = {}
        for start, end in find_pieces(len(ids), self.shape.head_dim):
            asked = [position for position in positions if start <= position < end]
            # The graph is never asked for nothing: what one place gives in vain, `zip` drops.
            places = [position - start for position in asked] or [0]
            bind = partial(self._bind, slot, 1, len(places))
            logits = self._append(slot, ids[start:end], places, bind)
            found |= zip(asked, logits, strict=False)
        return np.stack([found[position] for position in positions])

    def read_together(self, texts: Sequence[Sequence[int]]) -> list[Logits]:
        """Return the logits after every id of short texts, read in one call: [K, V] float32 each.

        No slot is active, before and after. All are read to the length of the longest, which has
        fewer ids than the context: what follows a text changes nothing before it.
        """
        assert not self._lengths
        pieces = find_pieces(max(map(len, texts)), self.shape.head_dim)
        # Where a text alone is read in two pieces, one more id keeps its last block from being one.
        size = pieces[-1][1] + len(pieces) - 1
        with failures_told(self.device, MAKING_ROOM):
            self._cache.reserve(len(texts), size)
        input_ids = np.array([[*ids, *[0] * (size - len(ids))] for ids in texts])  # [B, S]
        places = np.tile(np.arange(size), (len(texts), 1))
        logits = self._bind(0, len(texts), size).run(input_ids, places, places)
        return [row[: len(ids)] for row, ids in zip(logits, texts, strict=True)]

    def decode(self, ids: Sequence[int]) -> Logits:
        """Append one id to every active slot and return the logits after each: [n, V] float32.

        The array is overwritten by the next call.
        """
        rows = len(self._lengths)
        assert len(ids) == rows
        if self._huge_pages:
            self._huge_pages.step()
        self._reserve(max(self._lengths) + 1)
        if self._step is None or not self._step.serves(rows, self._cache.version):
            self._step = self._bind(0, rows, 1)
        input_ids = np.array(ids, np.int64)[:, None]  # [n, 1]
        position_ids = np.array(self._lengths, np.int64)[:, None]
        logits = self._step.run(input_ids, position_ids, np.zeros((rows, 1), np.int64))
        self._lengths = [length + 1 for length in self._lengths]
        return logits[:, 0]

    def verify(self, slot: int, ids: Sequence[int]) -> Logits:
        """Append ids to a slot and return the logits after each: [K, V] float32.

        Logits and cache have the bits of `decode`, called with one id after the other; to `extend`
        by the same ids gives others. 1 ≤ K ≤ `most_steps`. The array is overwritten by the next
        call with as many ids.
        """
        steps = len(ids)
        assert steps <= self.most_steps
        if self._huge_pages:
            self._huge_pages.step()
        return self._append(slot, ids, range(steps), lambda: self._bind_steps(slot, steps))

    def fork(self, source: int, target: int, length: int | None = None) -> None:
        """Copy the first `length` tokens of a slot, or all, to an active slot or the next free."""
        if target == len(self._lengths):
            assert target < self.slot_limit
            self._lengths.append(0)
            self._reserve(0)
        length = self._lengths[source] if length is None else length
        self._lengths[target] = length
        self._cache.copy_row(source, target, length)

    def save(self, slot: int, length: int) -> Saved | None:
        """Keep a copy of a slot's first tokens beside the slots; None if there is no room for it.

        All copies take at most an eighth of the memory of all slots, or that of one slot.
        """
        assert length <= self._lengths[slot]
        try:
            with failures_told(self.device, MAKING_ROOM):
                return self._cache.save_row(slot, length)
        except DeviceFullError:
            return None

    def load(self, saved: Saved, slot: int, length: int) -> None:
        """Let an active slot, or the next free one, begin with tokens that were saved."""
        assert length <= saved.length
        if slot == len(self._lengths):
            assert slot < self.slot_limit
            self._lengths.append(0)
        self._reserve(length)
        self._lengths[slot] = length
        self._cache.load_row(saved, slot, length)

    def drop(self, saved: Saved) -> None:
        """Give up a copy that was saved; it must not be loaded any more."""
        self._cache.drop(saved)

    def rewind(self, slot: int, length: int) -> None:
        """Forget the slot's tokens from `length` on."""
        assert 0 <= length <= self._lengths[slot]
        self._lengths[slot] = length

    def free(self, slot: int) -> None:
        """Close a slot; the last active slot moves into its place, so there is never a gap."""
        last = len(self._lengths) - 1
        # So a batch that runs empty costs what its rows cost: rows of one call lie side by side.
        if slot != last:
            self.fork(last, slot)
        self._lengths.pop()

    def _append(
        self, slot: int, ids: Sequence[int], positions: Sequence[int], bind: Callable[[], Step]
    ) -> Logits:
        """Append ids to a slot in one call; logits after those at `positions`: [K, V].

        `bind` is called when there is room for them in the cache.
        """
        start = self._lengths[slot]
        self._reserve(start + len(ids))
        input_ids = np.array([ids], np.int64)  # [1, S]
        position_ids = np.arange(start, start + len(ids), dtype=np.int64)[None]
        logits = bind().run(input_ids, position_ids, np.array([positions], np.int64))
        self._lengths[slot] = start + len(ids)
        return logits[0]

    def _bind_steps(self, slot: int, steps: int) -> Step:
        call = self._verifying.get(steps)
        if call is None or not call.serves(1, self._cache.version, slot):
            call = self._verifying[steps] = self._bind(slot, 1, steps, steps=steps)
        return call

    def _reserve(self, length: int) -> None:
        with failures_told(self.device, MAKING_ROOM):
            self._cache.reserve(len(self._lengths), max(length, *self._lengths))

    def _bind(self, first_row: int, rows: int, asked: int, *, steps: int = 1) -> Step:
        axes = (rows, asked, self.shape.vocab_size)
        return Step(self._session, self._cache, self.device, first_row, axes, steps)


def find_pieces(count: int, head_dim: int) -> Sequence[tuple[int, int]]:
    """Return where each call that reads so many ids begins and ends: one call, or two.

    The last bits of what is read must not depend on how a text is cut. On the CPU attention
    (GroupQueryAttention, ONNX Runtime 1.31.1) takes the ids of a call in blocks of 2 `head_dim`,
    fewer where the processor's second cache is small, and multiplies a block of one id by another
    kernel than longer ones. So no last block may be a single id.
    """
    block = gcd(2 * head_dim, _BLOCK)
    if count <= block or count % block != 1:
        return [(0, count)]
    return [(0, count - 2), (count - 2, count)]
