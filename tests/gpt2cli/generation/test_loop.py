"""The decode loop: samples in slots give what each would give alone, with no more work than needed.

A scripted engine records the calls; the real engine shows that bits survive slots and batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpt2cli.config import GenerationConfig, Overflow, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import PromptError
from gpt2cli.generation.interfaces import Chunk, Counts, Finish, FinishReason, LogitsEngine
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.sampling.history import History
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.generation.joined import join
from tests.gpt2cli.scripted import LogitsOf, ScriptedEngine, prefer, scatter
from tests.model_folders import ModelFolders
from tests.vectors.cases import CASES, GREEDY_PROMPT_LENGTH, LogitsCase, load_stored

VOCAB_SIZE = 97  # printable ASCII: id = code - 32
EOS = 96
GREEDY = SamplingConfig(temperature=0)
PLAIN = SamplingConfig(top_k=0)


@dataclass(frozen=True)
class Result:
    """One sample's joined text and its finish."""

    text: str
    finish: Finish


Results = dict[tuple[int, int], Result]  # (index, sample) -> result


def make_request(
    prompt: str = "a",
    *,
    sampling: SamplingConfig = GREEDY,
    seed: int = 0,
    samples: int = 1,
    index: int = 0,
    **limits: Any,
) -> Request:
    """Return a request; `limits` are those of GenerationConfig."""
    return Request(
        prompt=prompt,
        sampling=sampling,
        generation=GenerationConfig(**limits),
        seed=seed,
        samples=samples,
        index=index,
    )


def collect(chunks: Iterable[Chunk]) -> Results:
    """Join the chunks of each sample."""
    return {key: Result(*joined) for key, joined in join(chunks).items()}


def run(engine: LogitsEngine, tokenizer: Tokenizer, *requests: Request) -> Results:
    """Run requests to their end; a scripted engine must then have no active slot."""
    prepared = [prepare(request, tokenizer, engine.shape) for request in requests]
    results = collect(generate(engine, tokenizer, Sampler(), prepared))
    if isinstance(engine, ScriptedEngine):
        assert engine.slots == []
    return results


def spell(text: str, *, after: int) -> LogitsOf:
    """Return logits that spell a text after a prompt of `after` ids, then EOS."""
    ids = [ord(character) - 32 for character in text]

    def logits_of(so_far: Sequence[int]) -> NDArray[np.float32]:
        place = len(so_far) - after
        return prefer(VOCAB_SIZE, ids[place] if place < len(ids) else EOS)

    return logits_of


def spelling(text: str, *, max_slots: int = 1, n_positions: int = 16) -> ScriptedEngine:
    """Return an engine that spells a text after a prompt of one id."""
    logits_of = spell(text, after=1)
    return ScriptedEngine(
        logits_of, n_positions=n_positions, vocab_size=VOCAB_SIZE, max_slots=max_slots
    )


def scattering(*, max_slots: int, n_positions: int = 16) -> ScriptedEngine:
    """Return an engine whose logits look random, mostly `a`, `b` or EOS."""
    logits_of = scatter(VOCAB_SIZE, often=[65, 66, EOS])
    return ScriptedEngine(
        logits_of, n_positions=n_positions, vocab_size=VOCAB_SIZE, max_slots=max_slots
    )


# Finish reasons


def test_eos_ends_a_completion(ascii_tokenizer: Tokenizer) -> None:
    """The text ends before it; it is not counted."""
    result = run(spelling("hi"), ascii_tokenizer, make_request())[0, 0]
    assert result == Result(
        "hi",
        Finish(reason=FinishReason.STOP, stop_sequence=None, prompt_tokens=1, completion_tokens=2),
    )


def test_an_ignored_eos_does_not(ascii_tokenizer: Tokenizer) -> None:
    """Five tokens are made, three of them the silent marker."""
    request = make_request(ignore_eos=True, max_new_tokens=5)
    result = run(spelling("hi"), ascii_tokenizer, request)[0, 0]
    assert result.text == "hi"
    assert (result.finish.reason, result.finish.completion_tokens) == (FinishReason.LENGTH, 5)


def test_a_stop_sequence_ends_a_completion(ascii_tokenizer: Tokenizer) -> None:
    """Nothing is computed after it."""
    engine = spelling("hello User: and more")
    result = run(engine, ascii_tokenizer, make_request(stop=("User:",)))[0, 0]
    assert result.text == "hello "
    assert (result.finish.reason, result.finish.stop_sequence) == (FinishReason.STOP, "User:")
    assert engine.count("decode") == len("hello User:") - 1


def test_the_length_limit_ends_a_completion(ascii_tokenizer: Tokenizer) -> None:
    """Three tokens cost one prefill and two decode steps."""
    engine = spelling("hello")
    result = run(engine, ascii_tokenizer, make_request(max_new_tokens=3))[0, 0]
    assert (result.text, result.finish.reason) == ("hel", FinishReason.LENGTH)
    assert (engine.count("extend"), engine.count("decode")) == (1, 2)


def test_the_context_limit_ends_a_completion(ascii_tokenizer: Tokenizer) -> None:
    """Prompt and completion together have n_positions tokens, the last of which is not fed."""
    engine = spelling("hello", n_positions=4)
    result = run(engine, ascii_tokenizer, make_request())[0, 0]
    assert (result.text, result.finish.reason) == ("hel", FinishReason.CONTEXT)
    assert engine.count("decode") == 2


LIMIT = 8
LENGTHS = (1, 2, LIMIT - 2, LIMIT - 1, LIMIT, LIMIT + 1)


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("new", [0, 1, 2, 5])
@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_has_a_defined_result(
    ascii_tokenizer: Tokenizer, overflow: Overflow, new: int, length: int
) -> None:
    """Prompts around the limit, with -n 0, 1, 2, 5 (transformers#1749): counted by hand."""
    request = make_request("a" * length, max_new_tokens=new, overflow=overflow)
    engine = ScriptedEngine(
        lambda ids: prefer(VOCAB_SIZE, 66), n_positions=LIMIT, vocab_size=VOCAB_SIZE, max_slots=1
    )
    room = LIMIT - length
    if (overflow is Overflow.STOP and room < 0) or (overflow is Overflow.ERROR and room < new):
        with pytest.raises(PromptError):
            run(engine, ascii_tokenizer, request)
        return
    made = new if overflow is Overflow.SLIDE else min(new, room)
    result = run(engine, ascii_tokenizer, request)[0, 0]
    assert result == Result(
        "b" * made,
        Finish(
            reason=FinishReason.LENGTH if made == new else FinishReason.CONTEXT,
            stop_sequence=None,
            prompt_tokens=length,
            completion_tokens=made,
            truncated_prompt_tokens=(
                length - LIMIT // 2 if overflow is Overflow.SLIDE and new and room <= 0 else 0
            ),
        ),
    )


# Sliding


def test_slide_keeps_the_last_half_and_prefills_it_again(ascii_tokenizer: Tokenizer) -> None:
    """Prompt 6 of 8 positions, ids 1, 2, … drawn: the calls, one by one."""
    engine = ScriptedEngine(
        lambda ids: prefer(VOCAB_SIZE, ids[-1] + 1),
        n_positions=8,
        vocab_size=VOCAB_SIZE,
        max_slots=1,
    )
    request = make_request("      ", max_new_tokens=7, overflow=Overflow.SLIDE)
    result = run(engine, ascii_tokenizer, request)[0, 0]
    assert result.text == "!\"#$%&'"  # ids 1 to 7
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


def test_a_long_prompt_slides_before_its_first_token(ascii_tokenizer: Tokenizer) -> None:
    """Of twenty tokens only the last four are ever prefilled."""
    engine = ScriptedEngine(
        lambda ids: prefer(VOCAB_SIZE, 66), n_positions=8, vocab_size=VOCAB_SIZE, max_slots=1
    )
    prompt = "".join(chr(33 + number) for number in range(20))
    run(engine, ascii_tokenizer, make_request(prompt, max_new_tokens=1, overflow=Overflow.SLIDE))
    assert engine.calls[0] == ("extend", 0, (17, 18, 19, 20))


def test_what_stays_at_the_beginning_stays_in_every_slide(ascii_tokenizer: Tokenizer) -> None:
    """Three of eight positions: the others go on with two of five, in the prompt and after it."""
    engine = ScriptedEngine(
        lambda ids: prefer(VOCAB_SIZE, ids[-1] + 1),
        n_positions=8,
        vocab_size=VOCAB_SIZE,
        max_slots=1,
    )
    request = make_request("0" * 12, max_new_tokens=5, overflow=Overflow.SLIDE)
    prepared = prepare(
        request, ascii_tokenizer, engine.shape, prompt_ids=range(50, 62), kept_tokens=3
    )
    *_, last = generate(engine, ascii_tokenizer, Sampler(), [prepared])

    assert [call for call in engine.calls if call[0] == "extend"] == [
        ("extend", 0, (50, 51, 52, 60, 61)),  # -> 62, 63, 64
        ("extend", 0, (50, 51, 52, 63, 64)),
    ]
    assert last.finish is not None
    assert (last.finish.prompt_tokens, last.finish.truncated_prompt_tokens) == (12, 7)


def test_penalties_see_what_has_slid_out(ascii_tokenizer: Tokenizer) -> None:
    """The best id not yet seen: forty tokens in eight positions, and none comes twice."""
    ranking = prefer(VOCAB_SIZE, *range(50))
    engine = ScriptedEngine(lambda ids: ranking, n_positions=8, vocab_size=VOCAB_SIZE, max_slots=1)
    sampling = SamplingConfig(temperature=0, repetition_penalty=1e6)
    request = make_request("#", sampling=sampling, max_new_tokens=40, overflow=Overflow.SLIDE)
    text = run(engine, ascii_tokenizer, request)[0, 0].text
    assert [ord(character) - 32 for character in text] == [i for i in range(41) if i != 3]


def test_two_samples_slide_in_the_same_step(ascii_tokenizer: Tokenizer) -> None:
    """Equal lengths reach the limit together: both are prefilled again, both go on."""
    engine = scattering(max_slots=2, n_positions=8)
    limits: dict[str, Any] = {"max_new_tokens": 30, "overflow": Overflow.SLIDE, "ignore_eos": True}
    requests = [make_request(prompt, index=i, **limits) for i, prompt in enumerate(("ab", "cd"))]
    together = run(engine, ascii_tokenizer, *requests)
    for request in requests:
        alone = run(scattering(max_slots=1, n_positions=8), ascii_tokenizer, request)
        assert together[request.index, 0] == alone[request.index, 0]


# Prefills


@pytest.mark.parametrize(("samples", "max_slots"), [(8, 8), (5, 2), (3, 1)])
def test_samples_share_one_prefill(
    ascii_tokenizer: Tokenizer, samples: int, max_slots: int
) -> None:
    """Also where there are more samples than slots (llama.cpp#6978)."""
    engine = scattering(max_slots=max_slots)
    request = make_request("abc", sampling=PLAIN, samples=samples, max_new_tokens=4)
    results = run(engine, ascii_tokenizer, request)
    assert len(results) == samples
    assert engine.count("extend") == 1


def test_equal_prompts_that_meet_share_a_prefill(ascii_tokenizer: Tokenizer) -> None:
    """Two requests for the same text beside a third: two prefills."""
    engine = scattering(max_slots=3)
    requests = [
        make_request(prompt, sampling=PLAIN, seed=i, index=i, max_new_tokens=4)
        for i, prompt in enumerate(("ab", "xyz", "ab"))
    ]
    run(engine, ascii_tokenizer, *requests)
    assert [call[2] for call in engine.calls if call[0] == "extend"] == [(65, 66), (88, 89, 90)]


def test_a_prompt_that_begins_like_another_is_prefilled_by_itself(
    ascii_tokenizer: Tokenizer,
) -> None:
    """A part of another row's cache would be right but for the last bits."""
    engine = scattering(max_slots=2)
    requests = [make_request(p, index=i, max_new_tokens=4) for i, p in enumerate(("abc", "ab"))]
    run(engine, ascii_tokenizer, *requests)
    assert engine.count("extend") == 2


def test_a_sample_that_has_slid_lends_no_prefix(ascii_tokenizer: Tokenizer) -> None:
    """Its slot no longer begins with the prompt: the next sample prefills it anew."""
    engine = scattering(max_slots=1, n_positions=8)
    request = make_request(
        "abcd",
        sampling=PLAIN,
        samples=2,
        max_new_tokens=9,
        ignore_eos=True,
        overflow=Overflow.SLIDE,
    )
    run(engine, ascii_tokenizer, request)
    extended = [call[2] for call in engine.calls if call[0] == "extend"]
    assert extended.count((65, 66, 67, 68)) == 2


def test_a_sample_may_end_with_its_first_draw(ascii_tokenizer: Tokenizer) -> None:
    """-n 1 of five prompts in two slots: no decode step at all."""
    engine = scattering(max_slots=2)
    requests = [
        make_request("abcde"[i], index=i, max_new_tokens=1, ignore_eos=True) for i in range(5)
    ]
    results = run(engine, ascii_tokenizer, *requests)
    assert list(results) == [(i, 0) for i in range(5)]
    assert engine.count("decode") == 0


def test_a_request_for_nothing_takes_no_slot(ascii_tokenizer: Tokenizer) -> None:
    """-n 0 between others is answered without a call."""
    engine = scattering(max_slots=2)
    results = run(engine, ascii_tokenizer, make_request(max_new_tokens=0, samples=3))
    assert [result.text for result in results.values()] == ["", "", ""]
    assert engine.calls == []


# Slots


def test_a_finished_slot_is_taken_by_the_next_request(ascii_tokenizer: Tokenizer) -> None:
    """Of three requests in two slots the third begins when the shorter one ends."""
    engine = scattering(max_slots=2)
    lengths = {"a": 2, "b": 6, "c": 3}
    requests = [
        make_request(prompt, index=i, max_new_tokens=new, ignore_eos=True)
        for i, (prompt, new) in enumerate(lengths.items())
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
        ("free", 0),  # b moves there
        ("decode", 1),  # b: 5
        ("decode", 1),  # b: 6
        ("free", 0),
    ]


def test_a_draining_batch_costs_its_live_rows_only(ascii_tokenizer: Tokenizer) -> None:
    """Four samples that end after 1, 2, 3 and 4 tokens: decode steps of 3, 2 and 1 rows."""
    engine = scattering(max_slots=4)
    requests = [
        make_request("abcd"[i], index=i, max_new_tokens=i + 1, ignore_eos=True) for i in range(4)
    ]
    run(engine, ascii_tokenizer, *requests)
    assert [len(call[1]) for call in engine.calls if call[0] == "decode"] == [3, 2, 1]


def test_requests_are_taken_when_a_slot_is_free(ascii_tokenizer: Tokenizer) -> None:
    """The first text is out before the second request is asked for; memory stays flat."""
    engine = spelling("hello", max_slots=1)
    taken = []

    def requests() -> Iterator[PreparedRequest]:
        for index in range(3):
            taken.append(index)
            yield prepare(make_request(index=index), ascii_tokenizer, engine.shape)

    chunks = generate(engine, ascii_tokenizer, Sampler(), requests())
    assert next(chunks).text == "h"
    assert taken == [0]
    collect(chunks)
    assert taken == [0, 1, 2]


def test_closing_frees_all_slots_and_computes_no_more(ascii_tokenizer: Tokenizer) -> None:
    """Closed at any chunk, the engine has no active slot, and only `free` was still called."""
    for count in range(1, 17):
        engine = ScriptedEngine(
            lambda ids: prefer(VOCAB_SIZE, 66), vocab_size=VOCAB_SIZE, max_slots=3
        )
        requests = [
            make_request("abcde"[i], index=i, max_new_tokens=i + 1, ignore_eos=True)
            for i in range(5)
        ]
        prepared = [prepare(request, ascii_tokenizer, engine.shape) for request in requests]
        chunks = generate(engine, ascii_tokenizer, Sampler(), prepared)
        seen = [chunk for _, chunk in zip(range(count), chunks, strict=False)]
        calls = len(engine.calls)
        assert len(seen) == min(count, 15)
        chunks.close()
        assert engine.slots == []
        assert {call[0] for call in engine.calls[calls:]} <= {"free"}


def test_an_unstarted_loop_can_be_closed(ascii_tokenizer: Tokenizer) -> None:
    """Nothing is called."""
    engine = spelling("hi")
    request = prepare(make_request(), ascii_tokenizer, engine.shape)
    generate(engine, ascii_tokenizer, Sampler(), [request]).close()
    assert engine.calls == []


def test_no_requests_give_no_chunks(ascii_tokenizer: Tokenizer) -> None:
    """Nothing in, nothing out."""
    assert run(spelling("hi"), ascii_tokenizer) == {}


def test_a_failing_step_frees_all_slots(ascii_tokenizer: Tokenizer) -> None:
    """An error passes through, and the engine can be used again."""

    def fail_at_three(ids: Sequence[int]) -> NDArray[np.float32]:
        if len(ids) == 3:
            raise RuntimeError("boom")
        return prefer(VOCAB_SIZE, 66)

    engine = ScriptedEngine(fail_at_three, vocab_size=VOCAB_SIZE, max_slots=2)
    request = make_request(sampling=PLAIN, samples=2, ignore_eos=True)
    with pytest.raises(RuntimeError, match="boom"):
        run(engine, ascii_tokenizer, request)
    assert engine.slots == []


def test_an_interrupted_run_ends_with_what_was_made(ascii_tokenizer: Tokenizer) -> None:
    """Two samples run and a third waits: both finish as `interrupted`, the third never begins."""
    engine = spelling("hello", max_slots=2)
    request = prepare(make_request(samples=3, stop=("lx",)), ascii_tokenizer, engine.shape)
    made: list[Chunk] = []
    chunks = generate(
        engine, ascii_tokenizer, Sampler(), [request], interrupted=lambda: len(made) >= 4
    )
    for chunk in chunks:
        made.append(chunk)
    assert {key: (result.text, result.finish.reason) for key, result in collect(made).items()} == {
        (0, i): ("he", FinishReason.INTERRUPTED) for i in (0, 1)
    }
    assert engine.slots == []


def test_counts_are_kept(ascii_tokenizer: Tokenizer) -> None:
    """Three samples of two prompt tokens: two prefilled tokens, nine decoded, times above zero."""
    engine, counts = scattering(max_slots=4), Counts()
    request = make_request("ab", sampling=PLAIN, samples=3, max_new_tokens=4, ignore_eos=True)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    collect(generate(engine, ascii_tokenizer, Sampler(), [prepared], counts=counts))
    assert (counts.prefill_tokens, counts.decode_tokens) == (2, 9)
    assert min(counts.prefill_seconds, counts.decode_seconds, counts.sample_seconds) > 0


# What a request yields depends on the request alone


def generate_plainly(
    prepared: PreparedRequest, number: int, logits_of: LogitsOf, limit: int
) -> Result:
    """Make one sample of printable ASCII by the rules alone: no slots, no cache, no streaming."""
    request, config = prepared.request, prepared.request.generation
    row = History(
        request.sampling, seed=request.seed, sample=number, prompt_ids=prepared.prompt_ids
    )
    window, text, made, cut = list(prepared.prompt_ids), "", 0, 0

    def finish(reason: FinishReason, stop: str | None = None) -> Result:
        shown = text[: len(text) - len(stop or "")]
        prompt_tokens = len(prepared.prompt_ids)
        return Result(
            shown,
            Finish(
                reason=reason,
                stop_sequence=stop,
                prompt_tokens=prompt_tokens,
                completion_tokens=made,
                truncated_prompt_tokens=cut,
            ),
        )

    while made < config.max_new_tokens:
        if len(window) >= limit:
            if config.overflow is not Overflow.SLIDE:
                return finish(FinishReason.CONTEXT)
            window = window[-max(1, limit // 2) :]
            cut = cut if made else len(prepared.prompt_ids) - len(window)
        [token_id] = Sampler().step(logits_of(window)[None], [row])
        row.append(token_id)
        if token_id == EOS and not config.ignore_eos:
            return finish(FinishReason.STOP)
        window.append(token_id)
        made += 1
        text += "" if token_id == EOS else "\n" if token_id == 95 else chr(32 + token_id)
        ending = [stop for stop in config.stop if token_id != EOS and text.endswith(stop)]
        if ending:
            return finish(FinishReason.STOP, max(ending, key=len))
    return finish(FinishReason.LENGTH)


@st.composite
def requests_of(draw: st.DrawFn, index: int) -> Request:
    """Draw a request of any kind with a prompt of up to ten `a` and `b`."""
    return make_request(
        draw(st.text("ab", max_size=10)),
        sampling=SamplingConfig(
            temperature=draw(st.sampled_from([0.0, 0.5, 1.0])),
            top_k=draw(st.sampled_from([0, 2])),
            repetition_penalty=draw(st.sampled_from([1.0, 1.2])),
        ),
        seed=draw(st.integers(0, 2)),
        samples=draw(st.integers(1, 4)),
        index=index,
        max_new_tokens=draw(st.integers(0, 12)),
        stop=tuple(draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))),
        ignore_eos=draw(st.booleans()),
        overflow=draw(st.sampled_from(Overflow)),
    )


BATCHES = st.integers(1, 5).flatmap(lambda count: st.tuples(*map(requests_of, range(count))))


@settings(max_examples=150)
@given(batch=BATCHES, max_slots=st.integers(1, 4), limit=st.sampled_from([1, 2, 3, 8]))
def test_any_batch_yields_what_each_sample_yields_alone(
    ascii_tokenizer: Tokenizer, batch: tuple[Request, ...], max_slots: int, limit: int
) -> None:
    """Any requests in any number of slots: each sample is that of the plain oracle."""
    engine = scattering(max_slots=max_slots, n_positions=limit)
    prepared = []
    for request in batch:
        try:
            prepared.append(prepare(request, ascii_tokenizer, engine.shape))
        except PromptError:
            continue
    found = collect(generate(engine, ascii_tokenizer, Sampler(), prepared))
    assert engine.slots == []
    logits_of = scatter(VOCAB_SIZE, often=[65, 66, EOS])
    assert found == {
        (one.request.index, number): generate_plainly(one, number, logits_of, limit)
        for one in prepared
        for number in range(one.request.samples)
    }


# With the real engine


class RecordingSampler(Sampler):
    """A sampler that keeps the ids it chose, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[int] = []

    def step(self, logits: NDArray[np.float32], rows: Sequence[History]) -> list[int]:
        """Choose as always."""
        ids = super().step(logits, rows)
        self.chosen += ids
        return ids


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_greedy_ids_are_those_of_transformers(
    model_folders: ModelFolders, case: LogitsCase
) -> None:
    """From five ids to the last position."""
    path = model_folders(
        case.shape, config=case.config, tied=case.tied, n_inner=case.n_inner, tokenizer="bytes"
    )
    folder, stored = read_model_folder(path), load_stored(case)
    request = make_request(ignore_eos=True)
    prompt = tuple(stored.ids[:GREEDY_PROMPT_LENGTH].tolist())
    sampler = RecordingSampler()
    engine = Engine(folder, Device("cpu"), threads=1)
    prepared = [PreparedRequest(request, prompt)]
    collect(generate(engine, Tokenizer(folder), sampler, prepared))
    assert stored.greedy_gaps.min() > 1e-4  # else kernels might choose otherwise
    assert sampler.chosen == stored.greedy_ids.tolist()


PROMPTS = (
    "Once upon a time",
    "The",
    "",
    "She looked at the old house by the sea and said:",
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
    """Return eight requests whose prompts, lengths, seeds and kinds of sampling differ."""
    return [
        make_request(
            prompt,
            sampling=SAMPLINGS[index % len(SAMPLINGS)],
            seed=100 + index % 3,
            samples=1 + index % 3,
            index=index,
            max_new_tokens=6 + 3 * (index % 4),
            ignore_eos=True,
        )
        for index, prompt in enumerate(PROMPTS)
    ]


@pytest.fixture(scope="module")
def starter_results(starter: ModelFolder, starter_requests: list[Request]) -> Results:
    """Return what each of them yields alone in an engine with one slot."""
    engine, tokenizer = Engine(starter, Device("cpu"), max_slots=1, threads=1), Tokenizer(starter)
    return {
        key: result
        for request in starter_requests
        for key, result in run(engine, tokenizer, request).items()
    }


@pytest.mark.parametrize("max_slots", [1, 2, 3, 7])
@pytest.mark.parametrize("order", ["as given", "reversed", "mixed"])
def test_the_same_seed_gives_the_same_text_in_any_batch(
    starter: ModelFolder,
    starter_requests: list[Request],
    starter_results: Results,
    max_slots: int,
    order: str,
) -> None:
    """The starter at temperature 1 and others: alone, and in batches of any size and order."""
    requests = list(starter_requests)
    if order == "reversed":
        requests.reverse()
    elif order == "mixed":
        requests = requests[1::2] + requests[::2]
    engine = Engine(starter, Device("cpu"), max_slots=max_slots, threads=2)
    assert run(engine, Tokenizer(starter), *requests) == starter_results
    assert engine.lengths == ()


def test_samples_of_one_seed_differ(starter_results: Results) -> None:
    """The sample's number is part of the key: three samples of one prompt are three texts."""
    assert len({starter_results[2, number].text for number in range(3)}) == 3


def test_a_sample_is_the_same_however_many_there_are(
    starter: ModelFolder, starter_engine: Engine
) -> None:
    """The first of eight samples, and the fourth, are those of four."""
    tokenizer = Tokenizer(starter)
    results = [
        run(
            starter_engine,
            tokenizer,
            make_request("The old man", sampling=PLAIN, samples=samples, max_new_tokens=12),
        )
        for samples in (4, 8)
    ]
    assert [results[1][0, i] for i in range(4)] == [results[0][0, i] for i in range(4)]


def test_sliding_on_a_real_engine_depends_on_the_request_alone(
    model_folders: ModelFolders,
) -> None:
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
            assert result.finish.completion_tokens == 50
