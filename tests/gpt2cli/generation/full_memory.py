"""An engine on a device whose memory is full at chosen moments, and runs on it.

It fails as the real one does: when the slot is open, and before anything is computed.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from gpt2cli.config import BeamConfig, GenerationConfig, SamplingConfig
from gpt2cli.errors import DeviceFullError
from gpt2cli.generation import LogitsEngine, Request, generate, prepare
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.joined import Joined, join
from tests.gpt2cli.scripted import LogitsOf, ScriptedEngine, scatter

VOCAB_SIZE = 97
LOGITS_OF = scatter(VOCAB_SIZE, often=[65, 66, 96])  # mostly a, b or the end
NO_END = scatter(VOCAB_SIZE, often=[65, 66])
PLAIN = SamplingConfig(top_k=0)


class FullEngine(ScriptedEngine):
    """A scripted engine on a device; `is_full` tells by its calls so far and its open slots."""

    def __init__(
        self,
        is_full: Callable[[str, "FullEngine"], bool],
        *,
        max_slots: int,
        n_positions: int = 16,
        logits_of: LogitsOf = NO_END,
    ) -> None:
        super().__init__(
            logits_of, n_positions=n_positions, vocab_size=VOCAB_SIZE, max_slots=max_slots
        )
        self._is_full = is_full

    @property
    def restarts(self) -> list[int]:
        """The numbers of slots with which it was restarted."""
        return [call[1] for call in self.calls if call[0] == "restart"]

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        """Append ids to a slot, if they fit."""
        self._check("extend", slot)
        return super().extend(slot, ids, positions)

    def decode(self, ids: Sequence[int]) -> Any:
        """Append an id to every slot, if they fit."""
        self._check("decode", 0)
        return super().decode(ids)

    def fork(self, source: int, target: int) -> None:
        """Copy a slot, if it fits."""
        self._check("fork", target)
        super().fork(source, target)

    def free(self, slot: int) -> None:
        """Close a slot; where the last one must be copied, that may not fit."""
        if slot != len(self.slots) - 1:
            self._check("free", slot)
        super().free(slot)

    def _check(self, name: str, slot: int) -> None:
        self._open(slot)
        if self._is_full(name, self):
            self.calls.append(("full", name, len(self.slots)))
            raise DeviceFullError(f"full at {name} of {len(self.slots)} rows")


def holding(rows: int, *names: str) -> Callable[[str, FullEngine], bool]:
    """Return what is full where calls of these names meet more open slots than `rows`."""
    return lambda name, engine: name in names and len(engine.slots) > rows


def at_calls(moments: set[int], *names: str) -> Callable[[str, FullEngine], bool]:
    """Return what is full at these calls, 0-based; if names are given, others do not count."""
    calls = itertools.count()
    return lambda name, _: (not names or name in names) and next(calls) in moments


def make_request(
    prompt: str = "a", *, index: int = 0, samples: int = 1, beams: int = 1, **limits: Any
) -> Request:
    """Return a request; `limits` are those of GenerationConfig."""
    return Request(
        prompt=prompt,
        sampling=PLAIN if beams == 1 else SamplingConfig(),
        generation=GenerationConfig(**limits),
        search=BeamConfig(beams=beams),
        seed=index,
        samples=samples,
        index=index,
        logprobs=0,
    )


def run(engine: LogitsEngine, tokenizer: Tokenizer, *requests: Request) -> Joined:
    """Run requests to their end; a scripted engine must then have no active slot."""
    prepared = [prepare(request, tokenizer, engine.shape) for request in requests]
    try:
        return join(generate(engine, tokenizer, Sampler(), prepared))
    finally:
        if isinstance(engine, ScriptedEngine):
            assert engine.slots == []


def undisturbed(tokenizer: Tokenizer, *requests: Request, logits_of: LogitsOf = NO_END) -> Joined:
    """Return what requests yield where all fits."""
    engine = ScriptedEngine(logits_of, vocab_size=VOCAB_SIZE, max_slots=8)
    return run(engine, tokenizer, *requests)
