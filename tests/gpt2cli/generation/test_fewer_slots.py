"""A device's memory that is full in the midst of a run: fewer slots go on, and nothing is lost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpt2cli.config import Overflow
from gpt2cli.engine import Device, Engine
from gpt2cli.errors import DeviceFullError, PromptError
from gpt2cli.generation import (
    Chunk,
    Counts,
    FinishReason,
    Request,
    generate,
    in_sample_order,
    prepare,
)
from gpt2cli.model_folder import ModelFolder
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.engine import fake_cuda
from tests.gpt2cli.generation.full_memory import (
    LOGITS_OF,
    NO_END,
    VOCAB_SIZE,
    FullEngine,
    at_calls,
    holding,
    make_request,
    run,
    undisturbed,
)
from tests.gpt2cli.generation.joined import join
from tests.gpt2cli.scripted import ScriptedEngine

# What is halved, and what comes of it


@pytest.mark.parametrize("name", ["decode", "extend"])
@pytest.mark.parametrize(("rows", "restarts"), [(7, [4]), (4, [4]), (3, [4, 2]), (1, [4, 2, 1])])
def test_slots_are_halved_until_the_step_fits(
    ascii_tokenizer: Tokenizer, name: str, rows: int, restarts: list[int]
) -> None:
    """A decode step or a prefill, at eight rows: as often as it takes, with the same texts."""
    requests = [make_request("abcdefgh"[i], index=i, max_new_tokens=5) for i in range(8)]
    engine = FullEngine(holding(rows, name), max_slots=8)
    assert run(engine, ascii_tokenizer, *requests) == undisturbed(ascii_tokenizer, *requests)
    assert engine.restarts == restarts


def test_samples_share_their_prefill_again(ascii_tokenizer: Tokenizer) -> None:
    """Eight samples of one prompt, once halved: it is prefilled once more, not eight times."""
    request = make_request("abc", samples=8, max_new_tokens=5, ignore_eos=True)
    engine = FullEngine(holding(4, "decode"), max_slots=8)
    assert run(engine, ascii_tokenizer, request) == undisturbed(ascii_tokenizer, request)
    assert engine.count("extend") == 2


def test_a_copy_that_does_not_fit_halves_the_slots(ascii_tokenizer: Tokenizer) -> None:
    """The sample that was to begin by it is not lost."""
    request = make_request("abc", samples=8, max_new_tokens=5)
    engine = FullEngine(holding(2, "fork"), max_slots=8)
    assert run(engine, ascii_tokenizer, request) == undisturbed(ascii_tokenizer, request)
    assert engine.restarts == [4, 2]


def test_a_slot_that_cannot_be_moved_halves_the_slots(ascii_tokenizer: Tokenizer) -> None:
    """A sample that has ended is not run again."""
    requests = [make_request("abcd"[i], index=i, max_new_tokens=1 + i) for i in range(4)]
    requests[3] = make_request("d", index=3, max_new_tokens=9)
    engine = FullEngine(holding(2, "free"), max_slots=4)
    assert run(engine, ascii_tokenizer, *requests) == undisturbed(ascii_tokenizer, *requests)
    assert engine.restarts == [2]


def test_a_slot_that_runs_out_alone_is_an_error(ascii_tokenizer: Tokenizer) -> None:
    """Its own one, once nothing is left to halve; every slot is closed."""
    engine = FullEngine(holding(0, "extend"), max_slots=4)
    with pytest.raises(DeviceFullError, match="full at extend of 1 rows"):
        run(engine, ascii_tokenizer, make_request(samples=4))
    assert engine.restarts == [2, 1]


def test_a_restart_that_does_not_fit_is_tried_with_fewer(ascii_tokenizer: Tokenizer) -> None:
    """As where another program takes the memory meanwhile."""

    class Taken(FullEngine):
        def restart(self, max_slots: int) -> None:
            """Do it with one slot alone."""
            super().restart(max_slots)
            if max_slots > 1:
                raise DeviceFullError("taken")

    request = make_request(samples=8, max_new_tokens=4)
    engine = Taken(holding(4, "decode"), max_slots=8)
    assert run(engine, ascii_tokenizer, request) == undisturbed(ascii_tokenizer, request)
    assert engine.restarts == [4, 2, 1]


def test_who_came_first_begins_first_again(ascii_tokenizer: Tokenizer) -> None:
    """The sample that is shown as it is made waits for no later one."""
    request = make_request("a", samples=4, max_new_tokens=6, ignore_eos=True)
    engine = FullEngine(holding(2, "decode"), max_slots=4)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    chunks = list(generate(engine, ascii_tokenizer, Sampler(), [prepared]))
    ended = [chunk.sample for chunk in chunks if chunk.finish is not None]
    assert ended == [0, 1, 2, 3]
    ordered = join(in_sample_order(iter(chunks)))
    assert list(ordered) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_what_ran_comes_before_what_has_not_begun(ascii_tokenizer: Tokenizer) -> None:
    """Wherever its slot was: the last one had moved to the first; a search had no room yet."""
    requests = [
        make_request("abcd"[i], index=i, max_new_tokens=9 if i else 2, ignore_eos=True)
        for i in range(4)
    ]
    requests.append(make_request("e", index=4, beams=2, samples=2, max_new_tokens=2))
    engine = FullEngine(at_calls({1}, "decode"), max_slots=4)
    assert run(engine, ascii_tokenizer, *requests) == undisturbed(ascii_tokenizer, *requests)
    again = engine.calls[engine.calls.index(("restart", 2)) :]
    begun = [call[2] for call in again if call[0] == "extend"]
    assert b"".join(map(ascii_tokenizer.decode, begun)) == b"bcde"


def test_drawn_ids_are_fed_again_one_by_one(ascii_tokenizer: Tokenizer) -> None:
    """By the calls of the first time, in fewer rows: no step is larger than one that fitted."""
    engine = FullEngine(at_calls({2}, "decode"), max_slots=2)
    run(engine, ascii_tokenizer, make_request("ab", samples=2, max_new_tokens=5, ignore_eos=True))
    again = engine.calls[engine.calls.index(("restart", 1)) :]
    assert [call[0] for call in again[:6]] == ["restart", "extend", *["decode"] * 4]
    fed = [call[1] for call in engine.calls if call[0] == "decode"]
    assert [fed[2], fed[3]] == [fed[0][:1], fed[1][:1]]


def test_what_is_fed_again_is_counted_as_work(ascii_tokenizer: Tokenizer) -> None:
    """A rate is of what was computed; the records tell what was drawn."""
    engine = FullEngine(at_calls({1}, "decode"), max_slots=2)
    request = make_request("ab", max_new_tokens=3, ignore_eos=True)
    counts = Counts()
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    results = join(generate(engine, ascii_tokenizer, Sampler(), [prepared], counts=counts))
    assert results[0, 0][1].completion_tokens == 3
    assert (counts.prefill_tokens, counts.decode_tokens) == (4, 3)


def test_a_window_that_has_slid_is_prefilled_again(ascii_tokenizer: Tokenizer) -> None:
    """As it was then; others of its prompt do not lend it theirs."""
    request = make_request(
        "abc", samples=3, max_new_tokens=30, ignore_eos=True, overflow=Overflow.SLIDE
    )
    alone = ScriptedEngine(NO_END, n_positions=8, vocab_size=VOCAB_SIZE, max_slots=1)
    expected = run(alone, ascii_tokenizer, request)
    for moment in range(40):
        engine = FullEngine(at_calls({moment}), max_slots=3, n_positions=8)
        assert run(engine, ascii_tokenizer, request) == expected
        assert engine.restarts == [1]


def test_a_window_that_has_slid_begins_with_no_prompt_of_another(
    ascii_tokenizer: Tokenizer,
) -> None:
    """One sample has slid when another of its prompt, which comes before it in order, has not."""
    limits: dict[str, Any] = {"ignore_eos": True, "overflow": Overflow.SLIDE}
    requests = [
        make_request("abc", index=1, max_new_tokens=20, **limits),
        make_request("z", index=2, max_new_tokens=7, **limits),
        make_request("abc", index=0, max_new_tokens=4, **limits),
    ]
    roomy = ScriptedEngine(NO_END, n_positions=8, vocab_size=VOCAB_SIZE, max_slots=4)
    expected = run(roomy, ascii_tokenizer, *requests)
    for moment in range(30):
        engine = FullEngine(at_calls({moment}), max_slots=4, n_positions=8)
        engine.max_slots = 2  # so that the third begins late, and both run again
        assert run(engine, ascii_tokenizer, *requests) == expected


def test_interrupted_samples_that_wait_end_with_what_was_made(ascii_tokenizer: Tokenizer) -> None:
    """Four have begun and two run again when it comes: all four finish, each once."""
    engine = FullEngine(holding(2, "decode"), max_slots=4)
    request = make_request(samples=4, max_new_tokens=9, ignore_eos=True)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    made: list[Chunk] = []
    for chunk in generate(
        engine, ascii_tokenizer, Sampler(), [prepared], interrupted=lambda: len(made) >= 6
    ):
        made.append(chunk)
    results = join(made)
    assert engine.restarts == [2]
    assert {key: finish.reason for key, (_, finish) in results.items()} == dict.fromkeys(
        [(0, 0), (0, 1), (0, 2), (0, 3)], FinishReason.INTERRUPTED
    )
    assert [len(text) for text, _ in results.values()] == [2, 2, 1, 1]


def test_an_interrupted_sample_that_has_drawn_nothing_has_never_begun(
    ascii_tokenizer: Tokenizer,
) -> None:
    """The second one's prompt did not fit beside the first."""
    engine = FullEngine(holding(1, "extend"), max_slots=2)
    requests = [make_request("ab"[i], index=i, max_new_tokens=9, ignore_eos=True) for i in (0, 1)]
    prepared = [prepare(request, ascii_tokenizer, engine.shape) for request in requests]
    made: list[Chunk] = []
    for chunk in generate(
        engine, ascii_tokenizer, Sampler(), prepared, interrupted=lambda: len(made) >= 3
    ):
        made.append(chunk)
    assert list(join(made)) == [(0, 0)]


# Searches


def test_requests_of_one_prompt_survive_any_moment(ascii_tokenizer: Tokenizer) -> None:
    """Searches and samples that take their prompt from one another, at each call in turn."""
    requests = [
        make_request("ab", samples=2, beams=2, max_new_tokens=4),
        make_request("ab", index=1, samples=2, max_new_tokens=4),
        make_request("ab", index=2, samples=3, beams=3, max_new_tokens=4),
        make_request("ab", index=3, max_new_tokens=6),
    ]
    expected = undisturbed(ascii_tokenizer, *requests)
    for moment in range(50):
        engine = FullEngine(at_calls({moment}), max_slots=7)
        assert run(engine, ascii_tokenizer, *requests) == expected, moment


def test_beams_that_cannot_be_copied_leave_no_slot_open(ascii_tokenizer: Tokenizer) -> None:
    """Where that is an error."""
    engine = FullEngine(holding(1, "fork"), max_slots=3)
    with pytest.raises(DeviceFullError, match="at fork of 2 rows"):
        run(engine, ascii_tokenizer, make_request(beams=3, samples=3))


@pytest.mark.parametrize("name", ["decode", "fork", "extend", "free"])
def test_a_search_is_put_off_as_a_whole(ascii_tokenizer: Tokenizer, name: str) -> None:
    """Beside another one and a sample; the beams of one fit."""
    requests = [
        make_request("ab", samples=3, beams=3, max_new_tokens=6),
        make_request("c", index=1, max_new_tokens=6),
        make_request("d", index=2, samples=2, beams=3, max_new_tokens=6),
    ]
    engine = FullEngine(holding(4, name), max_slots=8)
    assert run(engine, ascii_tokenizer, *requests) == undisturbed(ascii_tokenizer, *requests)
    if name != "free":
        assert engine.restarts == [4]


def test_no_fewer_slots_than_a_search_has_beams_are_left(ascii_tokenizer: Tokenizer) -> None:
    """Half of eight would be too few for five beams."""
    request = make_request("ab", beams=5, samples=5, max_new_tokens=6)
    engine = FullEngine(lambda name, engine: engine.max_slots > 5, max_slots=8)
    assert run(engine, ascii_tokenizer, request) == undisturbed(ascii_tokenizer, request)
    assert engine.restarts == [5]


def test_a_search_that_runs_out_alone_is_an_error(ascii_tokenizer: Tokenizer) -> None:
    """All of its beams are one."""
    engine = FullEngine(holding(2, "decode"), max_slots=4)
    with pytest.raises(DeviceFullError):
        run(engine, ascii_tokenizer, make_request(beams=3, samples=3))
    assert engine.restarts == [3]


def test_a_later_search_with_more_beams_than_are_left_fails_by_itself(
    ascii_tokenizer: Tokenizer,
) -> None:
    """It had room when the run began; the others go on."""
    engine = FullEngine(holding(2, "decode"), max_slots=4)
    requests = [
        make_request("a", samples=4, max_new_tokens=3),
        make_request("b", index=1, beams=3, max_new_tokens=3),
    ]
    with pytest.raises(PromptError, match=r"beams: expected at most 2, .* found 3"):
        run(engine, ascii_tokenizer, *requests)


# Any run, any moment


@st.composite
def requests_of(draw: st.DrawFn, index: int) -> Request:
    """Draw a request with a prompt of up to four `a` and `b`: a search, or samples."""
    beams = draw(st.sampled_from([1, 1, 2, 3]))
    return make_request(
        draw(st.text("ab", max_size=4)),
        beams=beams,
        samples=draw(st.integers(1, beams if beams > 1 else 4)),
        index=index,
        max_new_tokens=draw(st.integers(0, 8)),
        stop=tuple(draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))),
        ignore_eos=draw(st.booleans()),
    )


BATCHES = st.integers(1, 6).flatmap(lambda count: st.tuples(*map(requests_of, range(count))))


@settings(max_examples=150)
@given(
    batch=BATCHES, max_slots=st.integers(12, 20), moments=st.sets(st.integers(0, 60), max_size=2)
)
def test_whenever_the_memory_is_full_the_results_are_the_same(
    ascii_tokenizer: Tokenizer, batch: tuple[Request, ...], max_slots: int, moments: set[int]
) -> None:
    """At up to two calls of any kind: each comes once, and is that of a run where all fits."""
    engine = FullEngine(at_calls(moments), max_slots=max_slots, logits_of=LOGITS_OF)
    found = run(engine, ascii_tokenizer, *batch)
    assert found == undisturbed(ascii_tokenizer, *batch, logits_of=LOGITS_OF)


# With the real engine


class FullRealEngine(Engine):
    """The engine, as on a device that holds `rows` rows of a decode step."""

    rows = 2

    def decode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Append an id to every slot, if they fit."""
        if len(ids) > self.rows:
            raise DeviceFullError("full")
        return super().decode(ids)


def test_the_bits_are_the_same_where_rows_do_not_depend_on_one_another(
    starter: ModelFolder,
) -> None:
    """Ids and log-probabilities of samples and a search, on the CPU."""
    requests = [
        make_request("Once upon a time", samples=5, max_new_tokens=12),
        make_request("The", index=1, beams=2, samples=2, max_new_tokens=9),
        make_request("She looked at the old house", index=2, samples=2, max_new_tokens=20),
    ]
    tokenizer = Tokenizer(starter)
    engine = FullRealEngine(starter, Device("cpu"), max_slots=8, threads=2)
    found = run(engine, tokenizer, *requests)
    assert engine.max_slots == 2
    assert found == run(
        Engine(starter, Device("cpu"), max_slots=8, threads=2), tokenizer, *requests
    )


def test_a_cache_on_a_device_is_taken_anew(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for CUDA on which no tensor has more than two rows: at first eight, then two."""
    cuda = fake_cuda.install(monkeypatch)
    shape, tokenizer = small.shape, Tokenizer(small)
    requests = [make_request("abc", samples=3, max_new_tokens=9, ignore_eos=True)]
    requests += [make_request("zz"[:i], index=i, max_new_tokens=5 + i) for i in (1, 2)]
    expected = run(Engine(small, Device("cuda"), max_slots=8), tokenizer, *requests)
    engine = Engine(small, Device("cuda"), max_slots=8)
    cuda.full_above = 2 * 4 * shape.n_head * shape.n_positions * shape.head_dim
    assert run(engine, tokenizer, *requests) == expected
    assert (engine.max_slots, engine.lengths) == (2, ())
