"""Claims about samples that come while others run."""

from collections.abc import Sequence

import pytest

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation.interfaces import Chunk
from gpt2cli.generation.loop import generate_from
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.scripted import ScriptedEngine, prefer

VOCAB_SIZE = 97  # printable ASCII


class ScriptedSource:
    """Gives what is listed, one entry at each asking; None is nothing now."""

    def __init__(self, entries: Sequence[tuple[PreparedRequest, int] | None]) -> None:
        self._entries = list(entries)
        self.waits: list[bool] = []

    @property
    def ended(self) -> bool:
        """Whether the list is used up."""
        return not self._entries

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next entry."""
        self.waits.append(wait)
        return self._entries.pop(0) if self._entries else None


@pytest.fixture
def engine() -> ScriptedEngine:
    """Return an engine with two slots that always writes `b`."""
    return ScriptedEngine(lambda ids: prefer(VOCAB_SIZE, 66), vocab_size=VOCAB_SIZE, max_slots=2)


def run(engine: ScriptedEngine, tokenizer: Tokenizer, source: ScriptedSource) -> list[Chunk]:
    """Return the chunks of a run."""
    chunks = list(generate_from(source, engine, tokenizer, Sampler()))
    assert engine.slots == []
    return chunks


def make(
    engine: ScriptedEngine, tokenizer: Tokenizer, prompt: str, new: int, *, number: int = 0
) -> tuple[PreparedRequest, int]:
    """Return a sample of a request whose index is its prompt's first character."""
    request = Request(
        prompt=prompt,
        sampling=SamplingConfig(temperature=0),
        generation=GenerationConfig(max_new_tokens=new),
        seed=0,
        samples=number + 1,
        index=ord(prompt[0]),
    )
    return prepare(request, tokenizer, engine.shape), number


def finished(chunks: Sequence[Chunk]) -> list[tuple[str, int]]:
    """Return what ended, in that order: the first character of the prompt, and the sample."""
    return [(chr(chunk.index), chunk.sample) for chunk in chunks if chunk.finish]


def test_what_runs_never_waits(engine: ScriptedEngine, ascii_tokenizer: Tokenizer) -> None:
    """The source may take its time only before the first sample, and when none runs any more."""
    source = ScriptedSource(
        [None, make(engine, ascii_tokenizer, "a", 3), None, None, None, None, None]
    )
    chunks = run(engine, ascii_tokenizer, source)
    assert finished(chunks) == [("a", 0)]
    assert source.waits == [True, True, False, False, True, True, True]
    assert engine.count("decode") == 2


def test_a_sample_that_comes_later_joins(
    engine: ScriptedEngine, ascii_tokenizer: Tokenizer
) -> None:
    """It is prefilled between two steps, and ends first."""
    source = ScriptedSource(
        [
            make(engine, ascii_tokenizer, "a", 5),
            None,
            make(engine, ascii_tokenizer, "b", 2, number=3),
        ]
    )
    chunks = run(engine, ascii_tokenizer, source)
    assert finished(chunks) == [("b", 3), ("a", 0)]
    rows = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert rows == [1, 2, 1, 1]


def test_a_full_engine_asks_for_nothing(engine: ScriptedEngine, ascii_tokenizer: Tokenizer) -> None:
    """A third sample stays where it is until a slot is free."""
    source = ScriptedSource([make(engine, ascii_tokenizer, name, 3) for name in "abc"])
    run(engine, ascii_tokenizer, source)
    assert source.waits[:2] == [True, False]
    first_asking_after = [call[0] for call in engine.calls].index("rewind")
    assert [call[0] for call in engine.calls[:first_asking_after]].count("decode") == 2


def test_a_source_that_ends_in_silence_ends_the_run(
    engine: ScriptedEngine, ascii_tokenizer: Tokenizer
) -> None:
    """Nothing came at all."""
    assert run(engine, ascii_tokenizer, ScriptedSource([None, None])) == []
    assert run(engine, ascii_tokenizer, ScriptedSource([])) == []


def test_what_needs_no_slot_is_answered_where_nothing_runs(
    engine: ScriptedEngine, ascii_tokenizer: Tokenizer
) -> None:
    """Samples without a token to draw come out as they come in."""
    source = ScriptedSource([make(engine, ascii_tokenizer, name, 0) for name in "abc"])
    assert finished(run(engine, ascii_tokenizer, source)) == [("a", 0), ("b", 0), ("c", 0)]
    assert engine.calls == []


def test_an_interrupted_run_asks_for_nothing_any_more(
    engine: ScriptedEngine, ascii_tokenizer: Tokenizer
) -> None:
    """Not even while it would wait for the first sample."""
    source = ScriptedSource([None] * 5)
    chunks = generate_from(
        source, engine, ascii_tokenizer, Sampler(), interrupted=lambda: len(source.waits) >= 2
    )
    assert list(chunks) == []
    assert len(source.waits) == 2


def test_closing_frees_the_slots(engine: ScriptedEngine, ascii_tokenizer: Tokenizer) -> None:
    """In the midst of two samples."""
    source = ScriptedSource([make(engine, ascii_tokenizer, name, 9) for name in "ab"])
    chunks = generate_from(source, engine, ascii_tokenizer, Sampler())
    next(chunks)
    assert engine.slots != []
    chunks.close()
    assert engine.slots == []
