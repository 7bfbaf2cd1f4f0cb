"""Which sequence lies in which slot of the engine, and what a new one finds there of its window."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpt2cli.generation.interfaces import Counts, LogitsEngine
from gpt2cli.generation.prefixes import Prefixes
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.generation.sources import find_source


@dataclass(slots=True)
class Slots:
    """The slots of one run."""

    engine: LogitsEngine
    counts: Counts
    prompt_cache: PromptCache | None  # takes over the last slot when the run ends
    active: list[TokenSequence] = field(default_factory=list)  # active[i] runs in slot i
    prefixes: Prefixes = field(init=False)

    def __post_init__(self) -> None:
        self.prefixes = Prefixes(self.engine, self.counts)

    def place(self, sequence: TokenSequence) -> None:
        """Put a sequence into a slot, with what a slot already holds of its window.

        A request's samples thus share one prefill, and so do prompts that begin alike.
        """
        held, free = self._find_held()
        cuts = self.engine.keeps_cuts
        source = find_source(sequence, held, free, self.prefixes, cuts=cuts)
        slot = source.slot if source.slot in free else next(iter(free), len(held))
        self.active[slot : slot + 1] = [sequence]  # before the engine may fail
        if source.saved is not None:
            self.engine.load(source.saved, slot, source.length)
        elif source.length and source.slot != slot:
            self.engine.fork(source.slot, slot, source.length)
        elif slot < len(held):
            self.engine.rewind(slot, source.length)
        sequence.fed, sequence.prefix_logits = source.length, source.logits
        self.counts.shared_tokens += source.length

    def look_ahead(self, sequence: TokenSequence) -> None:
        """Let a prompt that is healed know what follows its last tokens."""
        healing = sequence.history.healing
        if healing is None or not healing.path:
            return
        slot = self.active.index(sequence)
        rows = [self.engine.extend(slot, [i], [0])[0].copy() for i in healing.path]
        self.engine.rewind(slot, sequence.fed)
        healing.look_ahead(np.stack(rows))

    def release(self, slot: int) -> None:
        """Free a slot, or keep it for the next run."""
        if self.prompt_cache is not None and len(self.active) == 1:
            self.prompt_cache.sequence = self.active[slot]
        else:
            self.engine.free(slot)
        self.active[slot] = self.active[-1]
        self.active.pop()

    def release_finished(self) -> None:
        """Free the slots of all sequences that have finished."""
        for slot in reversed(range(len(self.active))):
            if self.active[slot].finished:
                self.release(slot)

    def regroup(
        self,
        before: Sequence[TokenSequence],
        after: Sequence[TokenSequence],
        parents: Sequence[int],
    ) -> None:
        """Give each beam a slot that holds the one it continues, `before[parent]`.

        The first to continue it has its slot; others a copy, in the slots of those that end here.
        """
        slots = [self.active.index(sequence) for sequence in before]
        spare = [slot for index, slot in enumerate(slots) if index not in parents]
        for index, (sequence, parent) in enumerate(zip(after, parents, strict=True)):
            slot = slots[parent]
            if parent in parents[:index]:
                slot = spare.pop() if spare else len(self.active)
                self.active[slot : slot + 1] = [sequence]  # before the engine may fail
                self.engine.fork(slots[parent], slot)
            self.active[slot : slot + 1] = [sequence]
        for slot in sorted(spare, reverse=True):
            self.release(slot)

    def close(self) -> None:
        """Release all slots, and the prefixes beside them."""
        while self.active:
            self.release(len(self.active) - 1)
        self.prefixes.close()

    def _find_held(self) -> tuple[Sequence[TokenSequence], Sequence[int]]:
        """Return the sequence of each open slot, and the slots that another one may take."""
        kept = None if self.prompt_cache is None else self.prompt_cache.sequence
        if kept is not None and not self.active:
            return [kept], [0]
        return list(self.active), [i for i, s in enumerate(self.active) if s.finished]
