"""Searches in the loop: what each finds alone, in slots that it shares with all that runs.

A scripted engine records the calls and holds the loop to its rules about slots.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpt2cli.config import BeamConfig, GenerationConfig, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import PromptError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import Chunk, Finish, FinishReason
from gpt2cli.generation.loop import generate, generate_from
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import ModelFolder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import write_tokenizer
from tests.gpt2cli.folders import bare_folder
from tests.gpt2cli.generation.joined import join
from tests.gpt2cli.scripted import LogitsOf, ScriptedEngine, scatter

VOCAB_SIZE = 97  # printable ASCII: id = code - 32
EOS = 96
LOGITS_OF = scatter(VOCAB_SIZE, often=[65, 66, EOS])  # mostly a, b or the end
NO_END = scatter(VOCAB_SIZE, often=[65, 66])


@dataclasses.dataclass(frozen=True)
class Result:
    """One completion."""

    text: str
    reason: FinishReason
    stop: str | None
    tokens: int


Results = dict[tuple[int, int], Result]  # (index, sample) -> result


def make_request(
    prompt: str = "a",
    *,
    beams: int = 3,
    penalty: float = 1.0,
    samples: int | None = None,
    index: int = 0,
    logprobs: int | None = None,
    sampling: SamplingConfig | None = None,
    **limits: Any,
) -> Request:
    """Return a request for all that a search finds; `limits` are those of GenerationConfig."""
    return Request(
        prompt=prompt,
        sampling=sampling or SamplingConfig(),
        generation=GenerationConfig(**limits),
        search=BeamConfig(beams=beams, length_penalty=penalty),
        seed=index,
        samples=beams if samples is None else samples,
        index=index,
        logprobs=logprobs,
    )


def make_engine(
    max_slots: int, *, n_positions: int = 16, logits_of: LogitsOf = LOGITS_OF
) -> ScriptedEngine:
    """Return an engine without a model."""
    return ScriptedEngine(
        logits_of,
        n_positions=n_positions,
        vocab_size=VOCAB_SIZE,
        max_slots=max_slots,
        most_slots=max(4, max_slots),
    )


def describe(text: str, finish: Finish) -> Result:
    """Return what a completion came to."""
    return Result(text, finish.reason, finish.stop_sequence, finish.completion_tokens)


def collect(chunks: Iterable[Chunk]) -> Results:
    """Join the chunks of each sample, and say what each came to."""
    return {key: describe(*joined) for key, joined in join(chunks).items()}


def run(engine: ScriptedEngine, tokenizer: Tokenizer, *requests: Request) -> Results:
    """Run requests to their end; the engine must then have no active slot."""
    prepared = [prepare(request, tokenizer, engine.shape) for request in requests]
    results = collect(generate(engine, tokenizer, Sampler(), prepared))
    assert engine.slots == []
    return results


@pytest.fixture(scope="module")
def ascii_folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """Return a folder with the tokenizer of printable ASCII alone."""
    path = tmp_path_factory.mktemp("ascii")
    return bare_folder(
        path, vocab_size=VOCAB_SIZE, eos_token_id=write_tokenizer(path, 97, kind="ascii")
    )


# What a search finds


def search_plainly(prepared: PreparedRequest, limit: int) -> list[Result]:
    """Search by the rules alone: no slots, no streaming, every text from the beginning."""
    config, search = prepared.request.generation, prepared.request.search
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[tuple[float, Result]] = []
    count = 2 * search.beams
    for length in range(1, config.max_new_tokens + 1):
        candidates = []
        for place, (total, ids) in enumerate(beams):
            logits = LOGITS_OF([*prepared.prompt_ids, *ids]).astype(np.float64)
            logprobs = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
            candidates += [(-(total + float(p)), place, i) for i, p in enumerate(logprobs)]
        going_on = []
        for rank, (negative, place, token_id) in enumerate(sorted(candidates)[:count]):
            ids = (*beams[place][1], token_id)
            result = end_plainly(ids, config, room=limit - len(prepared.prompt_ids))
            if result is None:
                going_on.append((-negative, ids))
            elif rank < search.beams:
                found.append((-negative / length**search.length_penalty, result))
        beams = going_on[: search.beams]
        found = sorted(found, key=lambda one: -one[0])[: search.beams]
        full = len(found) == search.beams
        if not beams or (full and beams[0][0] / length**search.length_penalty <= found[-1][0]):
            break
    return [result for _, result in found]


def end_plainly(ids: tuple[int, ...], config: GenerationConfig, *, room: int) -> Result | None:
    """Return the completion if it ends with its last id."""
    if ids[-1] == EOS and not config.ignore_eos:
        return Result(spell(ids[:-1]), FinishReason.STOP, None, len(ids) - 1)
    text = spell(ids)
    ending = [stop for stop in config.stop if ids[-1] != EOS and text.endswith(stop)]
    if ending:
        stop = max(ending, key=len)
        return Result(text[: len(text) - len(stop)], FinishReason.STOP, stop, len(ids))
    if len(ids) == config.max_new_tokens:
        return Result(text, FinishReason.LENGTH, None, len(ids))
    return Result(text, FinishReason.CONTEXT, None, len(ids)) if len(ids) == room else None


def spell(ids: Sequence[int]) -> str:
    """Return the text of ids; EOS has none."""
    return "".join(chr(32 + i) if i < 95 else "\n" for i in ids if i != EOS)


@st.composite
def requests_of(draw: st.DrawFn, index: int) -> Request:
    """Draw a request with a prompt of up to four `a` and `b`: a search, or samples."""
    beams = draw(st.integers(1, 4))
    return make_request(
        draw(st.text("ab", max_size=4)),
        beams=beams,
        penalty=draw(st.sampled_from([0.0, 1.0, 2.0, -1.0])),
        samples=draw(st.integers(1, beams)) if beams > 1 else draw(st.integers(1, 3)),
        index=index,
        max_new_tokens=draw(st.integers(0, 8)),
        stop=tuple(draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))),
        ignore_eos=draw(st.booleans()),
    )


@settings(max_examples=60)
@given(request=requests_of(0).filter(lambda one: one.search.on), limit=st.sampled_from([5, 16]))
def test_a_search_finds_what_the_rules_say(
    ascii_tokenizer: Tokenizer, request: Request, limit: int
) -> None:
    """Any search in just as many slots as it has beams."""
    engine = make_engine(request.search.beams, n_positions=limit)
    results = run(engine, ascii_tokenizer, request)
    if request.generation.max_new_tokens == 0:
        expected = [Result("", FinishReason.LENGTH, None, 0)] * request.samples
    else:
        expected = search_plainly(prepare(request, ascii_tokenizer, engine.shape), limit)
    assert list(results.values()) == expected[: request.samples]
    assert list(results) == [(0, number) for number in range(request.samples)]


BATCHES = st.integers(1, 6).flatmap(lambda count: st.tuples(*map(requests_of, range(count))))


@settings(max_examples=60)
@given(batch=BATCHES, max_slots=st.integers(1, 7))
def test_any_batch_yields_what_each_request_yields_alone(
    ascii_tokenizer: Tokenizer, batch: tuple[Request, ...], max_slots: int
) -> None:
    """In any number of slots, also fewer than a search has beams; nothing waits for ever."""
    together = run(make_engine(max_slots), ascii_tokenizer, *batch)
    alone: Results = {}
    for request in batch:
        alone |= run(make_engine(request.search.beams), ascii_tokenizer, request)
    assert together == alone


def test_a_stop_sequence_ends_a_completion_as_eos_does(ascii_tokenizer: Tokenizer) -> None:
    """The texts end before it; it is told, and its tokens are counted."""
    request = make_request(stop=("a", "b"), ignore_eos=True, max_new_tokens=9)
    results = run(make_engine(3, logits_of=NO_END), ascii_tokenizer, request)
    assert {result.stop for result in results.values()} <= {"a", "b"}
    assert all(len(result.text) == result.tokens - 1 for result in results.values())


def test_the_text_comes_when_the_search_is_over(ascii_tokenizer: Tokenizer) -> None:
    """One chunk for each completion, from the best on."""
    engine = make_engine(3)
    prepared = prepare(make_request(max_new_tokens=5), ascii_tokenizer, engine.shape)
    chunks = list(generate(engine, ascii_tokenizer, Sampler(), [prepared]))
    assert [(chunk.sample, chunk.finish is not None) for chunk in chunks] == [
        (number, True) for number in range(3)
    ]


def test_a_long_text_is_whole(ascii_tokenizer: Tokenizer) -> None:
    """What a stop sequence held back is given at the end."""
    request = make_request(stop=("aaaaaaaaa", "bbbbbbbbb"), ignore_eos=True, max_new_tokens=8)
    results = run(make_engine(3, logits_of=NO_END), ascii_tokenizer, request)
    assert [len(result.text) for result in results.values()] == [8, 8, 8]


# Slots


def test_beams_share_one_prefill_and_copy_what_they_must(ascii_tokenizer: Tokenizer) -> None:
    """At the first step two copies for three beams, later never more than two."""
    engine = make_engine(3)
    run(engine, ascii_tokenizer, make_request("abc", ignore_eos=True, max_new_tokens=6))
    names = [call[0] for call in engine.calls]
    assert (names.count("extend"), names.count("decode")) == (1, 5)
    assert names[:4] == ["extend", "fork", "fork", "decode"]
    assert names.count("fork") <= 2 * 6


def test_a_search_for_which_there_is_no_room_waits_and_nobody_passes(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Two samples run in three slots; the search comes, then a third sample, which would fit."""
    engine = make_engine(3)
    requests = [
        make_request("a", beams=1, index=0, ignore_eos=True, max_new_tokens=4),
        make_request("b", beams=1, index=1, ignore_eos=True, max_new_tokens=6),
        make_request("c", beams=3, index=2, ignore_eos=True, max_new_tokens=3),
        make_request("d", beams=1, index=3, ignore_eos=True, max_new_tokens=1),
    ]
    run(engine, ascii_tokenizer, *requests)
    extended = [(call[1], call[2]) for call in engine.calls if call[0] == "extend"]
    assert extended == [(0, (65,)), (1, (66,)), (0, (67,)), (0, (68,))]
    widths = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert widths == [2, 2, 2, 1, 1, 3, 3]


def test_a_search_takes_the_slots_of_finished_samples(ascii_tokenizer: Tokenizer) -> None:
    """Beside a sample that goes on."""
    engine = make_engine(3)
    requests = [
        make_request("a", beams=1, index=0, ignore_eos=True, max_new_tokens=2),
        make_request("b", beams=1, index=1, ignore_eos=True, max_new_tokens=6),
        make_request("c", beams=2, index=2, ignore_eos=True, max_new_tokens=4),
    ]
    run(engine, ascii_tokenizer, *requests)
    widths = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert widths == [2, 3, 3, 3, 1]


def test_an_equal_prompt_shares_the_prefill_of_a_sample(ascii_tokenizer: Tokenizer) -> None:
    """Of the one that runs beside it."""
    engine = make_engine(4)
    requests = [
        make_request("ab", beams=beams, index=beams, ignore_eos=True, max_new_tokens=4)
        for beams in (1, 3)
    ]
    run(engine, ascii_tokenizer, *requests)
    assert engine.count("extend") == 1


def rank(**logits: float) -> NDArray[np.float32]:
    """Return logits of characters (`end` is EOS); the others have next to no probability."""
    ranked = np.full(VOCAB_SIZE, -50, np.float32)
    for name, logit in logits.items():
        ranked[EOS if name == "end" else ord(name) - 32] = logit
    return ranked


def test_the_slots_of_beams_that_end_stay_the_searchs(ascii_tokenizer: Tokenizer) -> None:
    """Of two beams only `cc` goes on after two tokens; the next token makes them two again."""

    def logits_of(ids: Sequence[int]) -> NDArray[np.float32]:
        steps = [rank(c=0, d=-1), rank(a=0, c=-0.1, b=-0.2), rank(e=0, f=-0.1), rank(g=0)]
        return steps[len(ids) - 1] if ids[0] == 83 else rank(z=0)

    engine = make_engine(3, logits_of=logits_of)
    requests = [
        make_request("x", beams=1, index=0, max_new_tokens=9),
        make_request("s", beams=2, index=1, max_new_tokens=4, stop=("a", "b")),
        make_request("y", beams=1, index=2, max_new_tokens=9),
    ]
    results = run(engine, ascii_tokenizer, *requests)
    widths = [len(call[1]) for call in engine.calls if call[0] == "decode"]
    assert widths[:4] == [3, 2, 3, 2]
    assert [results[1, number].text for number in range(2)] == ["cceg", "ccfg"]


def test_there_are_candidates_for_every_way_to_end(ascii_folder: ModelFolder) -> None:
    """With two EOS ids two beams go on, though three of the best four candidates end."""
    folder = dataclasses.replace(ascii_folder, eos_token_ids=frozenset({EOS, ord("z") - 32}))
    tokenizer = Tokenizer(folder)
    request = make_request(beams=2, min_new_tokens=1)
    search = BeamSearch(tokenizer, prepare(request, tokenizer, make_engine(1).shape), 16)
    assert search.step(Sampler(), rank(a=0, b=-0.15)[None]) == [0, 0]
    assert search.step(Sampler(), np.stack([rank(end=0, a=-0.1, z=-0.2)] * 2)) == [0, 1]


# Ends


def test_nothing_to_draw_takes_no_slot(ascii_tokenizer: Tokenizer) -> None:
    """As many empty completions as samples."""
    engine = make_engine(3)
    results = run(engine, ascii_tokenizer, make_request(max_new_tokens=0, samples=2))
    assert [result.text for result in results.values()] == ["", ""]
    assert engine.calls == []


def test_an_interrupted_search_tells_the_best_so_far(ascii_tokenizer: Tokenizer) -> None:
    """After four tokens: those of a search for four tokens at most, but for their reason."""
    engine = make_engine(3)
    request = make_request(ignore_eos=True, max_new_tokens=9)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    chunks = generate(
        engine,
        ascii_tokenizer,
        Sampler(),
        [prepared],
        interrupted=lambda: engine.count("decode") == 3,
    )
    results = collect(chunks)
    assert {result.reason for result in results.values()} == {FinishReason.INTERRUPTED}
    shorter = make_request(ignore_eos=True, max_new_tokens=4)
    whole = run(make_engine(3), ascii_tokenizer, shorter)
    assert [one.text for one in results.values()] == [one.text for one in whole.values()]
    assert engine.slots == []


def test_closing_the_iterator_frees_all_slots(ascii_tokenizer: Tokenizer) -> None:
    """In the middle of a search, after another request's first text."""
    engine = make_engine(4)
    requests = [
        make_request("b", beams=1, index=1, ignore_eos=True),
        make_request("a", ignore_eos=True),
    ]
    prepared = [prepare(request, ascii_tokenizer, engine.shape) for request in requests]
    chunks = generate(engine, ascii_tokenizer, Sampler(), prepared)
    for _ in range(3):
        next(chunks)
    assert len(engine.slots) == 4
    chunks.close()
    assert engine.slots == []


class Source:
    """Gives the samples of prepared requests, a search once."""

    def __init__(self, *requests: PreparedRequest) -> None:
        self._samples = [(one, number) for one in requests for number in range(one.runs)]

    @property
    def ended(self) -> bool:
        """Whether there is none left."""
        return not self._samples

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next one."""
        return self._samples.pop(0) if self._samples else None


ONLY_C = SamplingConfig(ban=tuple(chr(code) for code in range(32, 127) if code != ord("c")))


def test_options_that_forbid_everything_are_the_searchs_own_error(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Each of its samples finishes with the reason; what runs beside it goes on."""
    banned = SamplingConfig(ban=("\n", "c", *ONLY_C.ban))
    engine = make_engine(4)
    prepared = [
        prepare(request, ascii_tokenizer, engine.shape)
        for request in (
            make_request(sampling=banned, samples=2, min_new_tokens=1),
            make_request("b", beams=1, index=1, ignore_eos=True, max_new_tokens=5),
        )
    ]
    chunks = list(generate_from(Source(*prepared), engine, ascii_tokenizer, Sampler()))
    finishes = {(c.index, c.sample): c.finish for c in chunks if c.finish is not None}
    assert list(finishes) == [(0, 0), (0, 1), (1, 0)]
    assert [one.reason for one in finishes.values()] == ["error", "error", "length"]
    errors = [str(one.error) for one in finishes.values()]
    assert errors[0] == errors[1]
    assert errors[0].startswith("every token is forbidden")
    assert errors[2] == "None"
    with pytest.raises(PromptError, match="every token is forbidden"):
        run(make_engine(4), ascii_tokenizer, make_request(sampling=banned, min_new_tokens=1))


def test_completions_that_the_options_do_not_allow_are_errors(ascii_tokenizer: Tokenizer) -> None:
    """One token, of which two are allowed: the third completion is not there."""
    engine = make_engine(3)
    request = make_request(sampling=ONLY_C, max_new_tokens=1, min_new_tokens=1)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    chunks = generate_from(Source(prepared), engine, ascii_tokenizer, Sampler())
    finishes = [chunk.finish for chunk in chunks if chunk.finish is not None]
    assert [finish.reason for finish in finishes] == ["length", "length", "error"]
    told = "the options allow 2 completions here, not 3; lower samples"
    assert str(finishes[2].error) == told


# Log-probabilities


def test_the_logprobs_of_a_completion_add_up_to_its_score(ascii_tokenizer: Tokenizer) -> None:
    """Without a length penalty the scores are in order, so the sums are."""
    engine = make_engine(4)
    request = make_request(
        beams=4, penalty=0.0, ignore_eos=True, max_new_tokens=6, stop=("b",), logprobs=2
    )
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    sums = []
    for chunk in generate(engine, ascii_tokenizer, Sampler(), [prepared]):
        assert chunk.finish is not None
        assert chunk.finish.logprobs is not None
        assert len(chunk.finish.logprobs) == chunk.finish.completion_tokens
        assert {len(one.alternatives) for one in chunk.finish.logprobs} == {2}
        sums.append(sum(one.logprob for one in chunk.finish.logprobs))
    assert sums == sorted(sums, reverse=True)
    assert len(set(sums)) == 4


# With the real engine


def collect_logprobs(
    engine: Engine, tokenizer: Tokenizer, requests: Sequence[Request]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return the log-probabilities of all samples."""
    prepared = [prepare(request, tokenizer, engine.shape) for request in requests]
    found = {}
    for chunk in generate(engine, tokenizer, Sampler(), prepared):
        if chunk.finish is not None and chunk.finish.logprobs is not None:
            values = [(one.token_id, one.logprob) for one in chunk.finish.logprobs]
            found[chunk.index, chunk.sample] = np.array(values)
    assert engine.lengths == ()
    return found


def test_the_same_search_gives_the_same_bits_in_any_batch(starter: ModelFolder) -> None:
    """Ids and log-probabilities of the starter: alone, and beside samples and other searches."""
    requests = [
        make_request(prompt, beams=beams, index=index, max_new_tokens=12, logprobs=0)
        for index, (prompt, beams) in enumerate(
            [("Once upon a time", 4), ("The", 1), ("She looked at", 3), ("It was", 2), ("He", 1)]
        )
    ]
    tokenizer = Tokenizer(starter)
    together = collect_logprobs(
        Engine(starter, Device("cpu"), max_slots=7, threads=2), tokenizer, requests
    )
    assert len(together) == 11
    for request in requests:
        slots = request.search.beams
        engine = Engine(starter, Device("cpu"), max_slots=slots, threads=1)
        for key, values in collect_logprobs(engine, tokenizer, [request]).items():
            assert np.array_equal(together[key], values), key
