"""Claims about the run: results in order as soon as they can, and a bounded number of them."""

import gc
import json
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.batch.results import BatchRun, Result
from gpt2cli.errors import OutputError, PromptError
from gpt2cli.generation.interfaces import Counts
from gpt2cli.resumable.input import InputReader, ItemSource
from gpt2cli.sampling.history import History
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.parsing import make_parser
from tests.gpt2cli.scripted import Logits, ScriptedEngine, prefer, scatter

VOCAB_SIZE = 97
EOS = 96
LIMITS = {"ignore_eos": True, "max_new_tokens": 2}  # of a record that says nothing else

Record = str | dict[str, object]  # a text is a line, or "": nothing comes at this moment


class ScriptedReader(InputReader):
    """Gives listed records, and counts those that were taken."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self.taken = 0
        self.waits: list[bool] = []
        self.ended = False

    def take(self, *, wait: bool) -> bytes | None:
        self.waits.append(wait)
        record = next(self._records, None)
        self.ended = record is None
        if not record:
            return None
        self.taken += 1
        return (record if isinstance(record, str) else json.dumps(record)).encode()


class CountingSampler(Sampler):
    """A sampler that knows how many samples it has ever seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[History] = set()

    def step(self, logits: Logits, rows: Sequence[History]) -> list[int]:
        self.seen |= set(rows)
        return super().step(logits, rows)


class Harness:
    """A run over records, with what it has handed on so far."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        records: Sequence[Record] | Iterator[Record],
        engine: ScriptedEngine,
        *,
        sink: Callable[[Result], None] = lambda result: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.results: list[Result] = []
        self.engine = engine
        self.sampler = CountingSampler()
        self.items = ScriptedReader(iter(records))
        source = ItemSource(self.items, make_parser(tokenizer, given=LIMITS))
        self._tokenizer = tokenizer
        self._sink = sink
        self._batch = BatchRun(source, self._keep, slots=engine.max_slots, interrupted=interrupted)

    @property
    def order(self) -> list[tuple[int, int]]:
        return [(result.item.index, result.sample) for result in self.results]

    def run(self) -> None:
        """Run to the end; no slot may be active then."""
        try:
            self._batch.run(self.engine, self._tokenizer, self.sampler, counts=Counts())
        finally:
            assert self.engine.slots == []

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        self._sink(result)


def scattering(max_slots: int) -> ScriptedEngine:
    """Return an engine whose logits look random, mostly `a`, `b` or EOS."""
    logits_of = scatter(VOCAB_SIZE, often=[65, 66, EOS])
    return ScriptedEngine(logits_of, vocab_size=VOCAB_SIZE, max_slots=max_slots)


def ending_all_but(slow: str, max_slots: int) -> ScriptedEngine:
    """Return an engine that ends each text at once, but never those that begin with `slow`."""

    def logits_of(ids: Sequence[int]) -> Logits:
        return prefer(VOCAB_SIZE, 66 if ids[0] == ord(slow) - 32 else EOS)

    return ScriptedEngine(logits_of, vocab_size=VOCAB_SIZE, max_slots=max_slots)


@pytest.fixture(scope="module")
def tokenizer(ascii_tokenizer: Tokenizer) -> Tokenizer:
    return ascii_tokenizer


# Order


RECORDS = st.lists(
    st.just("{bad")
    | st.just("")
    | st.fixed_dictionaries(
        {
            "prompt": st.text("ab", max_size=4),
            "seed": st.integers(0, 2),
            "samples": st.integers(1, 3),
            "max_new_tokens": st.integers(0, 4),
            "ignore_eos": st.booleans(),
        }
    ),
    max_size=8,
)


@given(records=RECORDS, slots=st.integers(1, 4))
def test_any_batch_gives_what_one_slot_gives(
    tokenizer: Tokenizer, records: list[Record], slots: int
) -> None:
    """The same results in the same order, in any number of slots, with any pauses between them."""
    together = Harness(tokenizer, records, scattering(slots))
    alone = Harness(tokenizer, [record for record in records if record], scattering(1))
    together.run()
    alone.run()
    assert together.results == alone.results
    assert together.order == [
        (index, sample)
        for index, record in enumerate(filter(None, records))
        for sample in range(int(str(record["samples"])) if isinstance(record, dict) else 1)
    ]


def test_a_result_is_handed_on_before_the_next_record_comes(tokenizer: Tokenizer) -> None:
    """Each record comes only when the result before it has been taken."""

    def records() -> Iterator[Record]:
        for number in range(3):
            while len(harness.results) < number:
                yield ""
            yield {"prompt": "abc"[number]}

    harness = Harness(tokenizer, records(), scattering(4))
    harness.run()
    assert harness.order == [(0, 0), (1, 0), (2, 0)]


def test_the_first_of_many_samples_does_not_wait_for_the_last(tokenizer: Tokenizer) -> None:
    """With one slot each sample is handed on before the next one begins."""
    decoded: list[int] = []
    harness = Harness(
        tokenizer,
        [{"prompt": "a", "samples": 4}],
        scattering(1),
        sink=lambda result: decoded.append(harness.engine.count("decode")),
    )
    harness.run()
    assert decoded == [1, 2, 3, 4]


# Searches


def test_a_search_gives_all_results_of_its_record(tokenizer: Tokenizer) -> None:
    """In the order of the input, beside samples, with fewer slots than two searches need."""
    records: list[Record] = [
        {"prompt": "a", "max_new_tokens": 5},
        {"prompt": "b", "beams": 3, "samples": 2},
        {"prompt": "c", "samples": 2},
        {"prompt": "d", "beams": 2, "max_new_tokens": 0, "samples": 2},
        {"prompt": "e", "beams": 4, "samples": 4},
    ]
    harness = Harness(tokenizer, records, scattering(4))
    harness.run()
    numbers = [1, 2, 2, 2, 4]  # of results
    assert harness.order == [(i, n) for i, count in enumerate(numbers) for n in range(count)]
    assert all(result.finish is not None for result in harness.results)


# Errors on the way


def test_options_that_leave_nothing_to_choose_are_the_records_own_error(
    tokenizer: Tokenizer,
) -> None:
    """The records beside it go on, with the results that they have without it."""
    banned = {"ban": [chr(code) for code in range(32, 127)] + ["\n"], "ignore_eos": False}
    records: list[Record] = [
        {"prompt": "a", "max_new_tokens": 6},
        {"prompt": "b", "samples": 2, "min_new_tokens": 1, **banned},
        {"prompt": "c", "beams": 2, "min_new_tokens": 1, **banned},
        {"prompt": "d", "max_new_tokens": 6},
    ]
    harness = Harness(tokenizer, records, scattering(4))
    harness.run()
    assert harness.order == [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0)]
    errors = [result.error for result in harness.results]
    assert [error is None for error in errors] == [True, False, False, False, True]
    assert all(error is None or "every token is forbidden" in error for error in errors)
    alone = Harness(tokenizer, records[:1], scattering(4))
    alone.run()
    assert alone.results[0].completion == harness.results[0].completion


# Bounds


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("kind", ["records", "samples", "errors"])
def test_what_must_wait_for_a_slow_record_is_bounded(
    tokenizer: Tokenizer, slots: int, kind: str
) -> None:
    """Eight results for each slot, however many could be made; then all follow."""
    greedy: dict[str, object] = {"greedy": True, "ignore_eos": False}
    fast: dict[str, list[Record]] = {
        "records": [{"prompt": "f", **greedy} for _ in range(100)],
        "samples": [{"prompt": "f", "samples": 100, **greedy}],
        "errors": ["{bad"] * 100,
    }
    slow: Record = {"prompt": "s", "max_new_tokens": 15, **greedy}
    begun: list[int] = []
    harness = Harness(
        tokenizer,
        [slow, *fast[kind]],
        ending_all_but("s", slots),
        sink=lambda result: begun.append(
            len(harness.sampler.seen) + (harness.items.taken - 1 if kind == "errors" else 0)
        ),
    )
    harness.run()
    assert len(harness.results) == 101
    assert begun[0] == 8 * slots
    assert max(number - place for place, number in enumerate(begun)) <= 8 * slots


def test_the_text_of_what_waits_is_bounded_too(tokenizer: Tokenizer) -> None:
    """Of errors with a megabyte of prompt each, five wait for a slow record, not sixteen."""
    long = "x" * (1 << 20)
    records: list[Record] = [
        {"prompt": "s", "max_new_tokens": 15, "greedy": True},
        *({"prompt": long, "top_k": -1} for _ in range(20)),
    ]
    taken: list[int] = []
    harness = Harness(
        tokenizer,
        records,
        ending_all_but("s", 2),
        sink=lambda result: taken.append(harness.items.taken),
    )
    harness.run()
    assert (taken[0], taken[-1]) == (1 + 4, 21)


def test_a_run_keeps_nothing_of_what_was_handed_on(tokenizer: Tokenizer) -> None:
    """After 300 records there are as many objects as after 100."""
    objects: list[int] = []

    def look(result: Result) -> None:
        for ours in (harness.results, harness.sampler.seen, harness.engine.calls):
            ours.clear()
        if result.item.index in (100, 300):
            gc.collect()
            objects.append(len(gc.get_objects()))

    records: Iterator[Record] = ({"prompt": f"{i:03}", "samples": 2} for i in range(310))
    harness = Harness(tokenizer, records, scattering(3), sink=look)
    harness.run()
    first, *_, last = objects
    assert last - first < 20


# Ends


@pytest.mark.parametrize("search", [{}, {"beams": 2, "samples": 2}], ids=str)
def test_an_interrupted_run_drops_what_is_not_done(
    tokenizer: Tokenizer, search: dict[str, object]
) -> None:
    """The one that was done was handed on; the one that ran is not, as if it had not begun."""
    long: list[Record] = [{"prompt": prompt, "max_new_tokens": 9, **search} for prompt in "bc"]
    records = [{"prompt": "a", "max_new_tokens": 2}, *long]
    harness = Harness(tokenizer, records, scattering(3), interrupted=lambda: bool(harness.results))
    harness.run()
    assert harness.order == [(0, 0)]
    assert harness.items.taken <= 3


@pytest.mark.parametrize("record", ["{bad", {"prompt": "a", "max_new_tokens": 0}, ""], ids=str)
def test_an_endless_input_can_be_interrupted(tokenizer: Tokenizer, record: Record) -> None:
    """Also one of which no record needs the engine, and one that keeps silent."""
    polls = 0

    def interrupted() -> bool:
        nonlocal polls
        polls += 1
        return polls > 50

    harness = Harness(tokenizer, iter(lambda: record, None), scattering(2), interrupted=interrupted)
    harness.run()
    assert harness.engine.calls == []


def test_a_sink_that_fails_ends_the_run(tokenizer: Tokenizer) -> None:
    """The error passes through, the slots are free, no other record is begun."""

    def fail(result: Result) -> None:
        raise OutputError("disk full")

    records: list[Record] = [{"prompt": prompt} for prompt in "abcdef"]
    harness = Harness(tokenizer, records, scattering(2), sink=fail)
    with pytest.raises(OutputError, match="disk full"):
        harness.run()
    assert (harness.items.taken, harness.order) == (2, [(0, 0)])


def test_an_input_that_fails_ends_the_run(tokenizer: Tokenizer) -> None:
    def records() -> Iterator[Record]:
        yield {"prompt": "a", "max_new_tokens": 0}
        raise PromptError("cannot read the input")

    harness = Harness(tokenizer, records(), scattering(2))
    with pytest.raises(PromptError, match="cannot read"):
        harness.run()
    assert harness.order == [(0, 0)]
