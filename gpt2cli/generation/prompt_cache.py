"""Keeps a slot's tokens between two runs, so that a turn of a chat prefills its own only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.sequence import TokenSequence


@dataclass(slots=True)
class PromptCache:
    """What slot 0 of an engine still holds after a run; before the first run it is closed.

    The last bits of a token's keys and values depend on the tokens that were prefilled with it, so
    a prefill is used again whole or not at all: the same prompts in the same order give the same
    text, whatever was tried and taken back in between.
    """

    is_open: bool = False
    window: Sequence[int] = ()  # of the last sequence; its first `fed` ids are in the slot
    fed: int = 0
    prefills: Sequence[tuple[int, int]] = ()  # the positions that one call each has filled
    prefix: tuple[int, ...] = ()
    prefix_logits: NDArray[np.float32] | None = field(default=None, repr=False)  # [1, V]

    def lend(self, sequence: TokenSequence) -> None:
        """Let a new sequence use what its prompt shares with the slot; the rest is lost.

        It is lost at once, so that this never claims more than the slot holds, whatever comes next.
        """
        if self.prefix_logits is not None and sequence.prefix == self.prefix:
            sequence.fed, sequence.prefix_logits = len(self.prefix), self.prefix_logits
        else:
            # Something must be left to prefill: the logits after it are wanted.
            shared = _count_shared(self.window[: self.fed], sequence.prefix)
            shared = min(shared, len(sequence.prefix) - 1)
            cut = (start for start, end in self.prefills if start < shared < end)
            sequence.fed = next(cut, shared)
            self.prefix, self.prefix_logits = (), None
        sequence.prefills = [(start, end) for start, end in self.prefills if end <= sequence.fed]
        self.fed, self.prefills = sequence.fed, tuple(sequence.prefills)

    def keep(self, sequence: TokenSequence) -> None:
        """Take over a sequence's slot as it is."""
        self.is_open = True
        self.window, self.fed = tuple(sequence.window), sequence.fed
        self.prefills = tuple(sequence.prefills)
        self.prefix, self.prefix_logits = sequence.prefix, sequence.prefix_logits

    def completion_of(self, prompt_ids: Sequence[int]) -> Sequence[int] | None:
        """Return the ids drawn after this prompt, EOS left out; None if some have slid away."""
        if self.prefix != tuple(prompt_ids):
            return ()  # nothing was to be drawn, so the prompt never came here
        prompt_is_there = tuple(self.window[: len(self.prefix)]) == self.prefix
        return self.window[len(self.prefix) :] if prompt_is_there else None


def _count_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids both begin with."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
