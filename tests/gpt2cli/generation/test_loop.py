"""The decode loop: samples in slots give what each would give alone, with no more work than needed.

A scripted engine records the calls; the real engine shows that bits survive slots and batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import Overflow, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import PromptError
from gpt2cli.generation.interfaces import Chunk, Counts, Finish, FinishReason
from gpt2cli.generation.loop import Loop, generate
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.sampling.constraints import Constraint
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.generation.runs import (
    PLAIN,
    VOCAB_SIZE,
    Joined,
    ScriptedSource,
    join,
    make_engine,
    make_request,
    run,
    run_from,
    spelling,
)
from tests.gpt2cli.scripted import ScriptedEngine, prefer
from tests.model_folders import ModelFolders
from tests.vectors.cases import FEW_CASES, GREEDY_PROMPT_LENGTH, LogitsCase, load_stored

B = 66  # the id of b

# Where a completion ends


def test_a_stop_sequence_ends_a_completion(ascii_tokenizer: Tokenizer) -> None:
    engine = spelling("hello User: and")
    text, finish = run(engine, ascii_tokenizer, make_request(stop=("User:",)))[0, 0]
    assert text == "hello "
    assert (finish.reason, finish.stop_sequence) == (FinishReason.STOP, "User:")
    assert engine.count("decode") == len("hello User:") - 1


def test_three_tokens_cost_one_prefill_and_two_decode_steps(ascii_tokenizer: Tokenizer) -> None:
    engine = spelling("hello")
    text, finish = run(engine, ascii_tokenizer, make_request(max_new_tokens=3))[0, 0]
    assert (text, finish.reason) == ("hel", FinishReason.LENGTH)
    assert (engine.count("extend"), engine.count("decode")) == (1, 2)


LIMIT = 8


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("new", [0, 1, 2, 5])
@pytest.mark.parametrize("length", (1, LIMIT - 2, LIMIT - 1, LIMIT, LIMIT + 1))
def test_every_length_has_a_defined_result(
    ascii_tokenizer: Tokenizer, overflow: Overflow, new: int, length: int
) -> None:
    """Prompts around the limit, with -n 0, 1, 2, 5 (transformers#1749): counted by hand."""
    request = make_request("a" * length, max_new_tokens=new, overflow=overflow)
    engine = make_engine(B, n_positions=LIMIT)
    room = LIMIT - length
    if (overflow is Overflow.STOP and room < 0) or (overflow is Overflow.ERROR and room < new):
        with pytest.raises(PromptError):
            run(engine, ascii_tokenizer, request)
        return
    slides = overflow is Overflow.SLIDE
    made = new if slides else min(new, room)
    text, finish = run(engine, ascii_tokenizer, request)[0, 0]
    assert text == "b" * made
    assert finish == Finish(
        reason=FinishReason.LENGTH if made == new else FinishReason.CONTEXT,
        stop_sequence=None,
        prompt_tokens=length,
        completion_tokens=made,
        truncated_prompt_tokens=length - LIMIT // 2 if slides and new and room <= 0 else 0,
    )


# Sliding


def test_slide_keeps_the_last_half_and_prefills_it_again(ascii_tokenizer: Tokenizer) -> None:
    """Prompt 6 of 8 positions, ids 1, 2, … drawn: the calls, one by one."""
    engine = make_engine(lambda ids: prefer(VOCAB_SIZE, ids[-1] + 1), n_positions=8)
    request = make_request("      ", max_new_tokens=7, overflow=Overflow.SLIDE)
    assert run(engine, ascii_tokenizer, request)[0, 0][0] == "!\"#$%&'"  # ids 1 to 7
    assert engine.calls == [
        ("extend", 0, (0, 0, 0, 0, 0, 0)),  # -> 1
        ("decode", (1,)),  # -> 2, the eighth: slide
        ("rewind", 0, 0),
        ("extend", 0, (0, 0, 1, 2)),  # -> 3
        ("decode", (3,)),  # -> 4
        ("decode", (4,)),  # -> 5
        ("decode", (5,)),  # -> 6, the eighth again
        ("rewind", 0, 0),
        ("extend", 0, (3, 4, 5, 6)),  # -> 7, the last
        ("free", 0),
    ]


def test_what_stays_at_the_beginning_stays_in_every_slide(ascii_tokenizer: Tokenizer) -> None:
    """Three of eight positions: the others go on with two of five, in the prompt and after it."""
    engine = make_engine(lambda ids: prefer(VOCAB_SIZE, ids[-1] + 1), n_positions=8)
    request = make_request("0" * 12, max_new_tokens=5, overflow=Overflow.SLIDE)
    prepared = prepare(
        request, ascii_tokenizer, engine.shape, prompt_ids=range(50, 62), kept_tokens=3
    )
    [(_, finish)] = join(generate(engine, ascii_tokenizer, Sampler(), [prepared])).values()
    assert [call for call in engine.calls if call[0] == "extend"] == [
        ("extend", 0, (50, 51, 52, 60, 61)),  # -> 62, 63, 64
        ("extend", 0, (50, 51, 52, 63, 64)),
    ]
    assert (finish.prompt_tokens, finish.truncated_prompt_tokens) == (12, 7)


def test_penalties_see_what_has_slid_out(ascii_tokenizer: Tokenizer) -> None:
    """The best id not yet seen: forty tokens in eight positions, and none comes twice."""
    ranking = prefer(VOCAB_SIZE, *range(50))
    sampling = SamplingConfig(temperature=0, repetition_penalty=1e6)
    request = make_request("#", sampling=sampling, max_new_tokens=40, overflow=Overflow.SLIDE)
    engine = make_engine(lambda ids: ranking, n_positions=8)
    text, _ = run(engine, ascii_tokenizer, request)[0, 0]
    assert [ord(character) - 32 for character in text] == [i for i in range(41) if i != 3]


# Prefills


def extended(engine: ScriptedEngine) -> list[tuple[int, ...]]:
    return [call[2] for call in engine.calls if call[0] == "extend"]


@pytest.mark.parametrize(("samples", "max_slots"), [(8, 8), (5, 2), (3, 1)])
def test_samples_share_one_prefill(
    ascii_tokenizer: Tokenizer, samples: int, max_slots: int
) -> None:
    """Also where there are more samples than slots (llama.cpp#6978)."""
    engine = make_engine(max_slots=max_slots)
    request = make_request("abc", sampling=PLAIN, samples=samples, max_new_tokens=4)
    assert len(run(engine, ascii_tokenizer, request)) == samples
    assert engine.count("extend") == 1


def test_equal_prompts_that_meet_share_a_prefill(ascii_tokenizer: Tokenizer) -> None:
    """But a part of another row's cache would be right but for the last bits."""
    engine = make_engine(max_slots=4)
    requests = [
        make_request(prompt, sampling=PLAIN, index=i, max_new_tokens=4)
        for i, prompt in enumerate(("ab", "abc", "xyz", "ab"))
    ]
    run(engine, ascii_tokenizer, *requests)
    assert extended(engine) == [(65, 66), (65, 66, 67), (88, 89, 90)]


def test_a_sample_that_has_slid_lends_no_prefix(ascii_tokenizer: Tokenizer) -> None:
    """Its slot no longer begins with the prompt: the next sample prefills it anew."""
    engine = make_engine(n_positions=8)
    limits: dict[str, Any] = {"max_new_tokens": 9, "ignore_eos": True, "overflow": Overflow.SLIDE}
    run(engine, ascii_tokenizer, make_request("abcd", sampling=PLAIN, samples=2, **limits))
    assert extended(engine).count((65, 66, 67, 68)) == 2


@pytest.mark.parametrize("beams", [1, 3])
def test_a_request_for_nothing_takes_no_slot(ascii_tokenizer: Tokenizer, beams: int) -> None:
    engine = make_engine(max_slots=2)
    request = make_request(max_new_tokens=0, samples=3, beams=beams)
    results = run(engine, ascii_tokenizer, request)
    assert [text for text, _ in results.values()] == ["", "", ""]
    assert engine.calls == []


# Slots


def test_a_finished_slot_is_taken_by_the_next_request(ascii_tokenizer: Tokenizer) -> None:
    """Of three requests in two slots the third begins when the shorter one ends."""
    engine = make_engine(max_slots=2)
    requests = [
        make_request(prompt, index=i, max_new_tokens=new, ignore_eos=True)
        for i, (prompt, new) in enumerate({"a": 2, "b": 6, "c": 3}.items())
    ]
    run(engine, ascii_tokenizer, *requests)
    names = [(call[0], len(call[1]) if call[0] == "decode" else call[1]) for call in engine.calls]
    assert names == [
        ("extend", 0),  # a: 1 of 2
        ("extend", 1),  # b: 1 of 6
        ("decode", 2),  # a: 2, b: 2
        ("rewind", 0),
        ("extend", 0),  # c: 1 of 3
        ("decode", 2),  # c: 2, b: 3
        ("decode", 2),  # c: 3, b: 4
        ("free", 0),  # b moves there: a draining batch costs its live rows only
        ("decode", 1),  # b: 5
        ("decode", 1),  # b: 6
        ("free", 0),
    ]


def test_requests_are_taken_when_a_slot_is_free(ascii_tokenizer: Tokenizer) -> None:
    """The first text is out before the second request is asked for; memory stays flat."""
    engine = spelling("hello")
    taken = []

    def requests() -> Iterator[PreparedRequest]:
        for index in range(3):
            taken.append(index)
            yield prepare(make_request(index=index), ascii_tokenizer, engine.shape)

    chunks = generate(engine, ascii_tokenizer, Sampler(), requests())
    assert next(chunks).text == "h"
    assert taken == [0]
    join(chunks)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("count", range(12))
def test_closing_frees_all_slots_and_computes_no_more(
    ascii_tokenizer: Tokenizer, count: int
) -> None:
    """At any chunk of samples and a search, or before the first, only `free` is still called."""
    engine = make_engine(B, max_slots=3)
    requests = [make_request("abcd"[i], index=i, max_new_tokens=i + 1) for i in range(4)]
    requests.insert(2, make_request("e", index=4, beams=2, max_new_tokens=9))
    prepared = [prepare(request, ascii_tokenizer, engine.shape) for request in requests]
    chunks = generate(engine, ascii_tokenizer, Sampler(), prepared)
    for _ in range(count):
        next(chunks, None)
    calls = len(engine.calls)
    chunks.close()
    assert engine.slots == []
    assert {call[0] for call in engine.calls[calls:]} <= {"free"}


def test_a_failing_step_frees_all_slots(ascii_tokenizer: Tokenizer) -> None:

    def fail_at_three(ids: Sequence[int]) -> NDArray[np.float32]:
        if len(ids) == 3:
            raise RuntimeError("boom")
        return prefer(VOCAB_SIZE, B)

    engine = make_engine(fail_at_three, max_slots=2)
    with pytest.raises(RuntimeError, match="boom"):
        run(engine, ascii_tokenizer, make_request(sampling=PLAIN, samples=2))
    assert engine.slots == []


def test_an_interrupted_run_ends_with_what_was_made(ascii_tokenizer: Tokenizer) -> None:
    """Two samples run and a third waits: both finish as `interrupted`, the third never begins."""
    engine = spelling("hello", max_slots=2)
    request = make_request(samples=3, stop=("lx",))
    results = run(engine, ascii_tokenizer, request, interrupted=lambda: engine.count("decode") == 2)
    assert {key: (text, finish.reason) for key, (text, finish) in results.items()} == {
        (0, i): ("hel", FinishReason.INTERRUPTED) for i in (0, 1)
    }


@pytest.mark.parametrize(
    ("seconds", "text", "reason"),
    [(2.5, "hell", "time"), (3, "hell", "time"), (9, "hello", "stop"), (None, "hello", "stop")],
)
@pytest.mark.parametrize("beams", [1, 2])
def test_a_completion_ends_when_its_time_is_over(
    ascii_tokenizer: Tokenizer, seconds: float | None, text: str, reason: str, beams: int
) -> None:
    """With the token that is being made; here each step after the prompt takes a second."""
    engine = spelling("hello", max_slots=2)
    request = make_request(max_time=seconds, beams=beams, samples=1)
    source = ScriptedSource((prepare(request, ascii_tokenizer, engine.shape), 0))
    loop = Loop(engine, ascii_tokenizer, Sampler(), clock=lambda: engine.count("decode"))
    assert [(t, f.reason) for t, f in join(loop.run(source)).values()] == [(text, reason)]


def test_each_sample_has_its_own_time(ascii_tokenizer: Tokenizer) -> None:
    """One that begins later ends later, and what was held back is given."""
    engine = spelling("hello")
    request = make_request(max_time=2, samples=2, stop=("lx",))
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    source = ScriptedSource((prepared, 0), (prepared, 1))
    loop = Loop(engine, ascii_tokenizer, Sampler(), clock=lambda: engine.count("decode"))
    assert [text for text, _ in join(loop.run(source)).values()] == ["hel", "hel"]


def test_counts_are_kept(ascii_tokenizer: Tokenizer) -> None:
    """Three samples of two prompt tokens: two prefilled tokens, nine decoded, times above zero."""
    engine, counts = make_engine(max_slots=4), Counts()
    request = make_request("ab", sampling=PLAIN, samples=3, max_new_tokens=4, ignore_eos=True)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    join(generate(engine, ascii_tokenizer, Sampler(), [prepared], counts=counts))
    assert (counts.prefill_tokens, counts.decode_tokens) == (2, 9)
    assert min(counts.prefill_seconds, counts.decode_seconds, counts.sample_seconds) > 0


# Samples that come while others run


def entry(
    engine: ScriptedEngine, tokenizer: Tokenizer, prompt: str, new: int
) -> tuple[PreparedRequest, int]:
    """Return a sample of a request whose index is its prompt's first character."""
    request = make_request(prompt, index=ord(prompt[0]), max_new_tokens=new)
    return prepare(request, tokenizer, engine.shape), 0


def finished(chunks: Sequence[Chunk]) -> str:
    """Return the first characters of the prompts whose samples ended, in that order."""
    return "".join(chr(chunk.index) for chunk in chunks if chunk.finish)


def test_what_runs_never_waits(ascii_tokenizer: Tokenizer) -> None:
    """The source may take its time only before the first sample, and when none runs any more."""
    engine = make_engine(B, max_slots=2)
    source = ScriptedSource(None, entry(engine, ascii_tokenizer, "a", 3), *[None] * 5)
    assert finished(run_from(source, engine, ascii_tokenizer)) == "a"
    assert source.waits == [True, True, False, False, True, True, True]
    assert engine.count("decode") == 2


def test_a_sample_that_comes_later_joins(ascii_tokenizer: Tokenizer) -> None:
    """It is prefilled between two steps, and ends first; a full engine asks for no other."""
    engine = make_engine(B, max_slots=2)
    samples = [entry(engine, ascii_tokenizer, *one) for one in (("a", 5), ("b", 2), ("c", 3))]
    source = ScriptedSource(samples[0], None, *samples[1:])
    assert finished(run_from(source, engine, ascii_tokenizer)) == "bac"
    rows = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert rows == [1, 2, 2, 2]
    assert source.waits[:4] == [True, False, False, False]


def test_an_interrupted_run_asks_for_nothing_any_more(ascii_tokenizer: Tokenizer) -> None:
    """Not even while it would wait for the first sample."""
    source = ScriptedSource(*[None] * 5)
    loop = Loop(
        make_engine(), ascii_tokenizer, Sampler(), interrupted=lambda: len(source.waits) >= 2
    )
    assert list(loop.run(source)) == []
    assert len(source.waits) == 2


class DeadEnd(Constraint):
    """A constraint that cannot be followed beyond the first id, as it finds before or after it."""

    satisfied = complete = False

    def __init__(self, when: str) -> None:
        self._when = when
        self._drawn = 0

    def fork(self) -> "DeadEnd":
        return DeadEnd(self._when)

    def find_mask(self) -> NDArray[np.bool_]:
        if self._when == "mask" and self._drawn:
            raise PromptError("a dead end")
        return np.zeros(VOCAB_SIZE, bool)

    def append(self, token_id: int) -> None:
        self._drawn += 1
        if self._when == "append":
            raise PromptError("a dead end")


@pytest.mark.parametrize("when", ["mask", "append"])
def test_a_sample_that_cannot_go_on_ends_with_the_error_and_others_go_on(
    ascii_tokenizer: Tokenizer, when: str
) -> None:
    engine = make_engine(B, max_slots=2)
    (bad, _), good = (entry(engine, ascii_tokenizer, *one) for one in (("a", 5), ("b", 3)))
    bad = replace(bad, constraint=DeadEnd(when))
    found = join(run_from(ScriptedSource((bad, 0), good), engine, ascii_tokenizer))
    (text, finish), (other, _) = found[ord("a"), 0], found[ord("b"), 0]
    assert (text, finish.reason, str(finish.error)) == ("b", FinishReason.ERROR, "a dead end")
    assert other == "bbb"


# With the real engine


@pytest.mark.parametrize("case", FEW_CASES, ids=lambda case: case.name)
def test_greedy_ids_are_those_of_transformers(
    model_folders: ModelFolders, case: LogitsCase
) -> None:
    """From five ids to the last position."""
    path = model_folders(
        case.shape, config=case.config, tied=case.tied, n_inner=case.n_inner, tokenizer="bytes"
    )
    folder, stored = read_model_folder(path), load_stored(case)
    prompt = tuple(stored.ids[:GREEDY_PROMPT_LENGTH].tolist())
    engine = Engine(folder, Device("cpu"), threads=1)
    prepared = [PreparedRequest(make_request(ignore_eos=True, logprobs=0), prompt)]
    chunks = generate(engine, Tokenizer(folder), Sampler(), prepared)
    [(_, finish)] = join(chunks).values()
    assert stored.greedy_gaps.min() > 1e-4  # else kernels might choose otherwise
    assert [one.token_id for one in finish.logprobs or ()] == stored.greedy_ids.tolist()


PROMPTS = (
    "Once upon a time",
    "The",
    "",
    "x" * 40,
    "Once upon a time",
    "In the morning the two brothers went out into the forest, " * 2,
    "日本",
)
SAMPLINGS = (
    SamplingConfig(),
    SamplingConfig(temperature=0.7, top_p=0.9),
    SamplingConfig(top_k=0),
    SamplingConfig(temperature=0),
    SamplingConfig(top_k=0, min_p=0.05, repetition_penalty=1.2),
)


@pytest.fixture(scope="module")
def starter_requests() -> list[Request]:
    """Return samples that differ in all they can, and two searches."""
    limits: dict[str, Any] = {"ignore_eos": True, "logprobs": 0}
    samples = [
        make_request(
            prompt,
            sampling=SAMPLINGS[index % len(SAMPLINGS)],
            seed=100 + index % 3,
            samples=1 + index % 3,
            index=index,
            max_new_tokens=6 + 3 * (index % 4),
            **limits,
        )
        for index, prompt in enumerate(PROMPTS)
    ]
    searches = [
        make_request(prompt, beams=beams, index=beams + 7, max_new_tokens=12, **limits)
        for prompt, beams in (("She looked at", 3), ("It was", 2))
    ]
    return [*samples[:2], *searches, *samples[2:]]


@pytest.fixture(scope="module")
def starter_results(starter: ModelFolder, starter_requests: list[Request]) -> Joined:
    """Return what each of them yields alone in an engine with one slot."""
    engine, tokenizer = Engine(starter, Device("cpu"), max_slots=1, threads=1), Tokenizer(starter)
    return {
        key: result
        for request in starter_requests
        for key, result in run(engine, tokenizer, request).items()
    }


@pytest.mark.parametrize(("max_slots", "step"), [(2, 1), (7, -1)])
def test_the_same_seed_gives_the_same_text_in_any_batch(
    starter: ModelFolder,
    starter_requests: list[Request],
    starter_results: Joined,
    max_slots: int,
    step: int,
) -> None:
    """In batches of any size and order, as alone; samples of one seed differ."""
    count = len(starter_requests)
    requests = [starter_requests[step * number % count] for number in range(count)]
    engine = Engine(starter, Device("cpu"), max_slots=max_slots, threads=2)
    assert run(engine, Tokenizer(starter), *requests) == starter_results
    assert engine.lengths == ()
    assert len({starter_results[2, number][0] for number in range(3)}) == 3


def test_sliding_on_a_real_engine_depends_on_the_request_alone(model_folders: ModelFolders) -> None:
    """Fifty tokens in ten positions, three samples beside another request: as alone."""
    folder = read_model_folder(
        model_folders(CheckpointShape(2, 2, 32, 10, VOCAB_SIZE, seed=5), tokenizer="ascii")
    )
    tokenizer = Tokenizer(folder)
    limits: dict[str, Any] = {"max_new_tokens": 50, "ignore_eos": True, "overflow": Overflow.SLIDE}
    requests = [
        make_request("Hello", sampling=PLAIN, seed=1, samples=3, **limits),
        make_request("a longer prompt than fits", sampling=PLAIN, seed=2, index=1, **limits),
    ]
    together = run(Engine(folder, Device("cpu"), max_slots=3, threads=2), tokenizer, *requests)
    for request in requests:
        engine = Engine(folder, Device("cpu"), max_slots=1, threads=1)
        for key, result in run(engine, tokenizer, request).items():
            assert together[key] == result
            assert result[1].completion_tokens == 50


# Requests that are withdrawn


def test_a_withdrawn_request_ends_alone_before_the_next_step(ascii_tokenizer: Tokenizer) -> None:
    """It shows what it held back; its slot is the next sample's."""
    engine = spelling("hello", max_slots=2)
    entries = [entry(engine, ascii_tokenizer, prompt, 5) for prompt in "abc"]
    loop = Loop(
        engine,
        ascii_tokenizer,
        Sampler(),
        withdrawn=lambda index: index == ord("a") and engine.count("decode") >= 2,
    )
    found = join(loop.run(ScriptedSource(*entries)))
    assert {key[0]: (text, finish.reason) for key, (text, finish) in found.items()} == {
        ord("a"): ("hel", FinishReason.INTERRUPTED),
        ord("b"): ("hello", FinishReason.LENGTH),
        ord("c"): ("hello", FinishReason.LENGTH),
    }
    rows = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert rows == [2, 2, 2, 2, 1, 1]
    assert engine.slots == []


@pytest.mark.parametrize(("steps", "texts"), [(0, ["", ""]), (4, ["aaaa", "aaab"])])
def test_a_withdrawn_search_ends_with_the_best_so_far(
    ascii_tokenizer: Tokenizer, steps: int, texts: list[str]
) -> None:
    """While it waits for room it has nothing; what runs beside it goes on."""
    engine = make_engine(lambda ids: prefer(VOCAB_SIZE, 65, B), max_slots=3)
    beside = entry(engine, ascii_tokenizer, "a", 9)
    search = make_request("b", beams=4 if not steps else 2, samples=2, max_new_tokens=9)
    entries = [beside, (prepare(search, ascii_tokenizer, engine.shape), 0)]
    loop = Loop(
        engine,
        ascii_tokenizer,
        Sampler(),
        withdrawn=lambda index: index == 0 and engine.count("decode") >= max(1, steps - 1),
    )
    found = join(loop.run(ScriptedSource(*entries)))
    assert [text for key, (text, _) in found.items() if key[0] == 0] == texts
    reasons = [finish.reason for _, finish in found.values()]
    assert sorted(reasons) == [FinishReason.INTERRUPTED] * 2 + [FinishReason.LENGTH]
    assert engine.slots == []


def test_chunks_carry_the_logprobs_of_their_tokens(ascii_tokenizer: Tokenizer) -> None:
    """Each token once, in order, those that a stop sequence held back with what follows."""
    engine = spelling("hello")
    request = make_request(logprobs=1, stop=("lx",))
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    chunks = list(generate(engine, ascii_tokenizer, Sampler(), [prepared]))
    found = [(chunk.text, len(chunk.logprobs)) for chunk in chunks]
    assert found == [("h", 1), ("e", 1), ("l", 2), ("lo", 1), ("", 0)]
    joined = [logprob for chunk in chunks for logprob in chunk.logprobs]
    assert chunks[-1].finish is not None
    assert tuple(joined) == chunks[-1].finish.logprobs
