"""Drafts: what may come next, guessed by a smaller model or looked up in the text so far."""

from collections.abc import Sequence
from typing import Final, Protocol

from gpt2cli.errors import Gpt2Error
from gpt2cli.generation.interfaces import Logits, LogitsEngine
from gpt2cli.generation.reading import count_equal
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.sampling.sampler import Sampler

_LONGEST_NGRAM: Final = 3  # that is looked up; a shorter one is more often right by chance only
_SHORTEST_NGRAM: Final = 2


class Draft(Protocol):
    """Proposes what may come next."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def propose(self, sequence: TokenSequence, count: int) -> list[int]:
        """Return up to `count` ids that may follow the sequence's window."""
        ...


class LookupDraft:
    """Proposes what followed when the last few ids stood in the text before."""

    name = "lookup"

    def propose(self, sequence: TokenSequence, count: int) -> list[int]:
        """Return what followed the latest earlier place of the longest n-gram that has one."""
        window = sequence.window
        for size in range(_LONGEST_NGRAM, _SHORTEST_NGRAM - 1, -1):
            end = len(window) - size
            last = window[end:]
            for start in range(end - 1, -1, -1):
                if window[start] == last[0] and window[start : start + size] == last:
                    return window[start + size : start + size + count]
        return []


class ModelDraft:
    """Proposes what a smaller model would draw, with the same options and random numbers.

    Its engine has one slot, which holds what was last proposed for; what a sequence still shares
    with that is not computed again.
    """

    def __init__(self, name: str, engine: LogitsEngine, sampler: Sampler) -> None:
        """Take over the engine, no slot of which is active."""
        self.name = name
        self._engine = engine
        self._sampler = sampler
        self._fed: list[int] = []  # the ids in slot 0
        self._is_open = False

    def propose(self, sequence: TokenSequence, count: int) -> list[int]:
        """Return ids as drawn by the draft's own logits; none beyond the draft's context."""
        count = min(count, self._engine.shape.n_positions - len(sequence.window))
        if count < 1:
            return []
        history = sequence.history.fork()
        proposed: list[int] = []
        try:
            logits = self._catch_up(sequence.window)  # [1, V]
            while True:
                [token_id] = self._sampler.step(logits, [history])
                proposed.append(token_id)
                if len(proposed) == count or token_id in sequence.eos_ids:
                    return proposed
                history.append(token_id)
                logits = self._engine.decode([token_id])
                self._fed.append(token_id)
        except Gpt2Error:  # nothing may follow, or the draft's logits are no numbers
            return proposed

    def _catch_up(self, window: Sequence[int]) -> Logits:
        """Feed what the slot lacks of a window, at least its last id; return the logits: [1, V]."""
        shared = min(count_equal(self._fed, window), len(window) - 1)
        if self._is_open:
            self._engine.rewind(0, shared)
        self._is_open = True  # also if the engine fails now, having taken some of the ids
        self._fed = self._fed[:shared]
        missing = window[shared:]
        if shared and len(missing) == 1:
            logits = self._engine.decode(missing)
        else:
            logits = self._engine.extend(0, missing, [len(missing) - 1])
        self._fed = list(window)
        return logits
