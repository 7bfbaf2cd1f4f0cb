"""The runner: jobs side by side on a scripted engine, in the test's own thread."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from gpt2cli.config import Overflow
from gpt2cli.errors import ModelError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.requests import Request, prepare
from gpt2cli.openai.faults import Fault
from gpt2cli.openai.pieces import Key, Scores
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.scoring import score
from gpt2cli.serve.jobs import Job
from gpt2cli.serve.runner import Runner
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import VOCAB_SIZE, make_engine, make_request
from tests.gpt2cli.scripted import Logits, scatter

LONG: Final[dict[str, Any]] = {"max_new_tokens": 9, "ignore_eos": True}
TIMEOUT: Final = 40.0
GRACE: Final = 50.0


class Desk:
    """A runner, what it does at certain steps, and jobs of its engine's tokenizer."""

    def __init__(self, tokenizer: Tokenizer, *, slots: int = 2, waiting: int = 9) -> None:
        self.tokenizer = tokenizer
        self.engine = make_engine(self._make_logits, max_slots=slots)
        self.now = 0.0
        self.told: list[str] = []
        self.at: dict[int, Callable[[], object]] = {}  # how many decode calls -> what happens then
        self._logits_of = scatter(VOCAB_SIZE)
        self.runner = Runner(
            self.engine,
            tokenizer,
            Sampler(),
            call_soon=lambda function: function(),
            max_waiting=waiting,
            timeout=TIMEOUT,
            tell=self.told.append,
            clock=lambda: self.now,
        )

    def _make_logits(self, ids: Sequence[int]) -> Logits:
        self.at.pop(self.engine.count("decode"), lambda: None)()
        return self._logits_of(ids)

    def submit(self, *requests: Request, scored: int | None = None) -> Job:
        prompts = [prepare(one, self.tokenizer, self.engine.shape) for one in requests]
        job = Job(prompts, scored=scored)
        with self.runner.place() as submit:
            submit(job)
        return job

    def run(self) -> None:
        """Run all jobs to their end; then no slot is in use."""
        self.runner.end(GRACE)
        self.runner.run()
        assert self.engine.slots == []
        assert (self.runner.running, self.runner.waiting, self.runner.tokens) == (0, 0, 0)


@pytest.fixture
def desk(ascii_tokenizer: Tokenizer) -> Desk:
    return Desk(ascii_tokenizer)


def read(job: Job) -> dict[Key, tuple[str, FinishReason]]:
    """Return the text of each sample and why it ended; it must have ended."""

    async def collect() -> dict[Key, tuple[str, FinishReason]]:
        texts: dict[Key, str] = defaultdict(str)
        found = {}
        async for _, pieces in job.results():
            for piece in pieces:
                texts[piece.key] += piece.text
                if piece.finish is not None:
                    found[piece.key] = texts[piece.key], piece.finish.reason
        return found

    return asyncio.run(asyncio.wait_for(collect(), 5))


def read_error(job: Job) -> str:
    with pytest.raises(ModelError) as error:
        read(job)
    return str(error.value)


def test_jobs_get_their_own_texts_whatever_else_runs(ascii_tokenizer: Tokenizer) -> None:
    """Several prompts, samples and beams in two slots: each text is the one that it is alone."""
    asked = [
        [make_request("ab", samples=3, seed=1, **LONG), make_request("c", index=1, **LONG)],
        [make_request("d", beams=2, **LONG)],
        [make_request("ab", seed=4, **LONG)],
    ]
    desk = Desk(ascii_tokenizer)
    jobs = [desk.submit(*requests) for requests in asked]
    desk.run()
    for requests, job in zip(asked, jobs, strict=True):
        alone = Desk(ascii_tokenizer)
        expected = alone.submit(*requests)
        alone.run()
        found = read(job)
        assert found == read(expected)
        assert len(found) == sum(request.samples for request in requests)


def test_a_job_that_is_withdrawn_leaves_its_slots_before_the_next_step(desk: Desk) -> None:
    """Of its four samples two run and two wait; the job behind it takes over at once."""
    gone = desk.submit(make_request("a", samples=4, **LONG))
    kept = desk.submit(make_request("b", **LONG))
    desk.at[2] = lambda: desk.runner.withdraw(gone)
    desk.run()
    rows = [len(call[1]) for call in desk.engine.calls if call[0] == "decode"]
    assert rows == [2, 2] + [1] * 8
    found = read(gone)
    assert {reason for _, reason in found.values()} == {FinishReason.INTERRUPTED}
    assert [len(found[0, sample][0]) for sample in range(4)] == [3, 3, 0, 0]
    assert read(kept)[0, 0][1] is FinishReason.LENGTH


def test_a_job_that_waits_can_be_withdrawn_and_costs_nothing(desk: Desk) -> None:
    first = desk.submit(make_request("a", samples=2, **LONG))
    waits = desk.submit(make_request("b", **LONG), make_request("c", beams=2, **LONG))
    desk.at[1] = lambda: desk.runner.withdraw(waits)
    desk.run()
    assert desk.engine.count("decode") == 8
    assert read(waits) == dict.fromkeys([(0, 0), (1, 0), (1, 1)], ("", FinishReason.INTERRUPTED))
    assert len(read(first)) == 2


def test_a_job_whose_time_is_over_is_cut_with_what_it_has(desk: Desk) -> None:
    """The time counts from its beginning: one that waited has all of it yet."""
    first = desk.submit(make_request("a", samples=3, **LONG))
    second = desk.submit(make_request("b", **LONG))
    desk.at[3] = lambda: setattr(desk, "now", TIMEOUT)
    desk.run()
    assert [len(text) for text, _ in read(first).values()] == [4, 4, 0]
    assert read(second)[0, 0][1] is FinishReason.LENGTH


def test_what_the_model_raises_ends_those_that_run_and_no_others(desk: Desk) -> None:
    """The third job has not begun: it runs in the next loop."""

    def fail() -> None:
        raise ModelError("boom")

    failing = [desk.submit(make_request(prompt, **LONG)) for prompt in "ab"]
    waits = desk.submit(make_request("c", **LONG))
    desk.at[3] = fail
    desk.run()
    assert [read_error(job) for job in failing] == ["boom", "boom"]
    assert desk.told == ["the model failed: boom"]
    assert read(waits)[0, 0][1] is FinishReason.LENGTH


def test_what_is_left_after_the_grace_is_cut(desk: Desk) -> None:
    """What runs keeps its text, what waits has none; nothing new is taken meanwhile."""
    runs = desk.submit(make_request("a", samples=2, **LONG))
    waits = desk.submit(make_request("b", **LONG))
    refused = []

    def pass_time() -> None:
        desk.now = GRACE
        with pytest.raises(Fault) as fault, desk.runner.place():
            pass
        refused.append(fault.value.status)

    desk.at[4] = pass_time
    desk.run()
    assert [len(text) for text, _ in read(runs).values()] == [5, 5]
    assert read(waits) == {(0, 0): ("", FinishReason.INTERRUPTED)}
    assert refused == [503]


def test_more_than_may_wait_are_refused(ascii_tokenizer: Tokenizer) -> None:
    """One that is being prepared has its place, which it gives back if it comes to nothing."""
    desk = Desk(ascii_tokenizer, slots=1, waiting=2)
    first = desk.submit(make_request("a", **LONG))
    with desk.runner.place():
        with pytest.raises(Fault) as fault, desk.runner.place():
            pass
        assert (fault.value.status, fault.value.headers) == (429, {"Retry-After": "1"})
    second = desk.submit(make_request("b", **LONG))
    desk.run()
    assert len(read(first)) == len(read(second)) == 1


def test_jobs_whose_prompts_fill_the_memory_are_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few they are."""
    monkeypatch.setattr("gpt2cli.serve.runner._MOST_TOKENS", 3)
    first = desk.submit(make_request("abcd", **LONG), make_request("b", index=1, **LONG))
    with pytest.raises(Fault) as fault, desk.runner.place():
        pass
    assert fault.value.status == 429
    desk.run()
    assert len(read(first)) == 2


def test_prompts_are_scored_while_others_run(desk: Desk) -> None:
    """By the logits that they have alone; a prompt's scores come before its samples."""
    running = desk.submit(make_request("a", **LONG))
    scored = desk.submit(make_request("bcd", max_new_tokens=0), scored=1)
    desk.run()

    async def take_first() -> Sequence[object]:
        async for scores, pieces in scored.results():
            return [scores, [piece.finish.reason for piece in pieces if piece.finish]]
        return []

    found, reasons = asyncio.run(take_first())
    engine = make_engine(scatter(VOCAB_SIZE))
    ids = [ord(character) - 32 for character in "bcd"]
    [first, rest] = score(engine, ids, bos_token_id=None, stride=8, top=1)
    assert [*found] == [Scores(0, [*first, *rest])]  # type: ignore[misc]
    assert reasons == [FinishReason.LENGTH]
    assert read(running)[0, 0][1] is FinishReason.LENGTH


def test_prompts_are_scored_one_by_one_between_the_steps_of_others(desk: Desk) -> None:
    """Else many of them would hold up what runs; with nothing beside them they need not wait."""
    desk.submit(make_request("a", **LONG))
    prompts = ["bc", "cd", "de", "ef"]
    many = [make_request(prompt, index=i, max_new_tokens=0) for i, prompt in enumerate(prompts)]
    scored = [desk.submit(*many[:2], scored=0), desk.submit(*many[2:], scored=0)]
    desk.run()
    names = [call[0] for call in desk.engine.calls]
    assert names == ["extend", *["extend", "free", "decode"] * 4, *["decode"] * 4, "free"]
    assert [len(read(job)) for job in scored] == [2, 2]


def test_prompts_are_scored_when_what_ran_beside_them_ends_without_a_step(desk: Desk) -> None:
    """Its last token is drawn where it slides: there is no step that they could wait for."""
    limits: dict[str, Any] = {"max_new_tokens": 2, "ignore_eos": True, "overflow": Overflow.SLIDE}
    desk.submit(make_request("a" * 15, **limits))
    prompts = [make_request(prompt, max_new_tokens=0) for prompt in ("bc", "cd")]
    scored = [desk.submit(prompt, scored=0) for prompt in prompts]
    desk.run()
    assert desk.engine.count("decode") == 0
    assert [len(read(job)) for job in scored] == [1, 1]
