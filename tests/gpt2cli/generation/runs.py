"""Requests in printable ASCII, engines that are scripted for it, and runs joined by sample."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import BeamConfig, GenerationConfig, SamplingConfig
from gpt2cli.generation.interfaces import Chunk, Finish, LogitsEngine
from gpt2cli.generation.loop import Loop, generate
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.scripted import LogitsOf, ScriptedEngine, prefer, scatter

Key: TypeAlias = tuple[int, int]  # index, sample
Joined: TypeAlias = dict[Key, tuple[str, Finish]]

VOCAB_SIZE = 97  # printable ASCII: id = code - 32
EOS = 96
PLAIN = SamplingConfig(top_k=0)
GREEDY = SamplingConfig(temperature=0)
LOGITS_OF = scatter(VOCAB_SIZE, often=[65, 66, EOS])  # mostly a, b or the end


def make_request(
    prompt: str = "a",
    *,
    sampling: SamplingConfig = GREEDY,
    index: int = 0,
    seed: int | None = None,
    samples: int | None = None,
    beams: int = 1,
    penalty: float = 1.0,
    logprobs: int | None = None,
    **limits: Any,
) -> Request:
    """Return a request, for all that a search finds; `limits` are those of GenerationConfig."""
    return Request(
        prompt=prompt,
        sampling=sampling,
        generation=GenerationConfig(**limits),
        search=BeamConfig(beams=beams, length_penalty=penalty),
        seed=index if seed is None else seed,
        samples=beams if samples is None else samples,
        index=index,
        logprobs=logprobs,
    )


def make_engine(
    logits_of: LogitsOf | int = LOGITS_OF, *, max_slots: int = 1, n_positions: int = 16
) -> ScriptedEngine:
    """Return an engine without a model; `logits_of`: or the id that is always the best."""
    if isinstance(logits_of, int):
        best = prefer(VOCAB_SIZE, logits_of)
        return make_engine(lambda ids: best, max_slots=max_slots, n_positions=n_positions)
    return ScriptedEngine(
        logits_of,
        n_positions=n_positions,
        vocab_size=VOCAB_SIZE,
        max_slots=max_slots,
        slot_limit=max(4, max_slots),
    )


def spelling(text: str, *, max_slots: int = 1) -> ScriptedEngine:
    """Return an engine that spells a text after a prompt of one id, then EOS."""
    ids = [ord(character) - 32 for character in text] + [EOS] * 16

    def logits_of(so_far: Sequence[int]) -> NDArray[np.float32]:
        return prefer(VOCAB_SIZE, ids[len(so_far) - 1])

    return make_engine(logits_of, max_slots=max_slots)


def join(chunks: Iterable[Chunk]) -> Joined:
    """Join the chunks of each sample; asserts that each finishes once, with its last chunk."""
    texts: dict[Key, str] = defaultdict(str)
    joined: Joined = {}
    for chunk in chunks:
        key = (chunk.index, chunk.sample)
        assert key not in joined
        assert chunk.text or chunk.finish
        texts[key] += chunk.text
        if chunk.finish is not None:
            joined[key] = texts[key], chunk.finish
    assert texts.keys() == joined.keys()
    return joined


def run(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    *requests: Request,
    interrupted: Callable[[], bool] = lambda: False,
) -> Joined:
    """Run requests to their end; a scripted engine must then have no active slot."""
    prepared = [prepare(request, tokenizer, engine.shape) for request in requests]
    joined = join(generate(engine, tokenizer, Sampler(), prepared, interrupted=interrupted))
    if isinstance(engine, ScriptedEngine):
        assert engine.slots == []
    return joined


class ScriptedSource:
    """Gives samples, one at each asking; None is nothing now."""

    def __init__(self, *entries: tuple[PreparedRequest, int] | None) -> None:
        self._entries = list(entries)
        self.waits: list[bool] = []

    @property
    def ended(self) -> bool:
        return not self._entries

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        self.waits.append(wait)
        return self._entries.pop(0) if self._entries else None


def run_from(source: ScriptedSource, engine: ScriptedEngine, tokenizer: Tokenizer) -> list[Chunk]:
    chunks = list(Loop(engine, tokenizer, Sampler()).run(source))
    assert engine.slots == []
    return chunks
