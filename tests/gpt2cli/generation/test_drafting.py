"""Speculative decoding: the text of a plain run, whatever the draft; and when a draft rests.

Expected texts are those of runs without a draft.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any

import pytest

from gpt2cli.config import SamplingConfig
from gpt2cli.errors import ModelError
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.drafts import Draft, LookupDraft, ModelDraft
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.loop import generate
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.requests import Request, prepare
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import (
    EOS,
    GREEDY,
    LOGITS_OF,
    Joined,
    join,
    make_engine,
    make_request,
    run,
)
from tests.gpt2cli.scripted import ScriptedEngine

_DRAWN = SamplingConfig(top_k=3, repetition_penalty=1.1, ban=("ab",))


class _Guess:
    """A draft that proposes what is likely, and so is right now and then."""

    name = "guess"

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def propose(self, sequence: TokenSequence, count: int) -> list[int]:
        """Return fewer at times, or none."""
        return [self._draw.choice([65, 66, EOS]) for _ in range(self._draw.randint(0, count))]


def draft_by(engine: ScriptedEngine, draft: Draft, **how: Any) -> Drafting:
    """Return drafting whose draft is there at once."""
    drafting = Drafting(engine, lambda: draft, **how)
    while drafting._find_draft() is None:
        pass
    return drafting


def run_drafted(
    tokenizer: Tokenizer,
    request: Request,
    draft: Draft,
    *,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[Joined, ScriptedEngine]:
    engine = make_engine(max_slots=2, n_positions=24)
    prepared = [prepare(request, tokenizer, engine.shape)]
    chunks = generate(
        engine,
        tokenizer,
        Sampler(),
        prepared,
        interrupted=interrupted,
        drafting=draft_by(engine, draft),
    )
    joined = join(chunks)
    assert engine.slots == []
    return joined, engine


_LLAMA = SamplingConfig(
    top_n_sigma=2.0,
    xtc_probability=0.5,
    repetition_penalty=1.5,
    repeat_last_n=3,
    dry_multiplier=1.0,
)


@pytest.mark.parametrize("seed", range(40))
def test_any_draft_leaves_the_text_as_it_is(ascii_tokenizer: Tokenizer, seed: int) -> None:
    """With stops, limits, a context that slides, log-probabilities, bans, penalties, samples."""
    draw = random.Random(seed)
    request = make_request(
        "ab" * draw.randint(1, 9),
        sampling=draw.choice([GREEDY, _DRAWN, SamplingConfig(top_k=0, no_repeat_ngram=3), _LLAMA]),
        seed=seed,
        samples=draw.choice([1, 2]),
        logprobs=draw.choice([None, 2]),
        max_new_tokens=draw.choice([1, 2, 9, 60]),
        stop=draw.choice([(), ("bb",), ("aba", "q")]),
        ignore_eos=draw.random() < 0.7,
        overflow=draw.choice(["stop", "slide"]),
    )
    plain = run(make_engine(max_slots=2, n_positions=24), ascii_tokenizer, request)
    assert run_drafted(ascii_tokenizer, request, _Guess(seed))[0] == plain


def test_a_draft_that_is_right_needs_few_calls(ascii_tokenizer: Tokenizer) -> None:
    """The model itself as its draft: eight tokens of each call, after two plain steps."""
    draft = ModelDraft("itself", make_engine(n_positions=24), Sampler())
    request = make_request("a", sampling=_DRAWN, max_new_tokens=22, ignore_eos=True)
    joined, engine = run_drafted(ascii_tokenizer, request, draft)
    assert joined == run(make_engine(n_positions=24), ascii_tokenizer, request)
    assert engine.count("verify") <= 5 and engine.count("decode") <= 3


@pytest.mark.parametrize("taken", [1, 3, 6])
def test_interrupted_it_keeps_what_was_drawn(ascii_tokenizer: Tokenizer, taken: int) -> None:
    """The beginning of the whole text, and no slot stays open."""
    request = make_request("a", sampling=_DRAWN, max_new_tokens=20, ignore_eos=True)
    [(whole, _)] = run(make_engine(n_positions=24), ascii_tokenizer, request).values()
    asked = iter(range(taken))
    draft = ModelDraft("itself", make_engine(n_positions=24), Sampler())
    joined, _ = run_drafted(
        ascii_tokenizer, request, draft, interrupted=lambda: next(asked, None) is None
    )
    [(text, finish)] = joined.values() or [("", None)]
    assert whole.startswith(text) and len(text) < len(whole)
    assert finish is None or finish.reason is FinishReason.INTERRUPTED


def test_a_kept_slot_holds_what_was_drawn(ascii_tokenizer: Tokenizer) -> None:
    """What was verified in vain is taken back, so that the next run of a chat can go on."""
    held = []
    for draft in (None, _Guess(1)):
        engine = make_engine(n_positions=64)
        request = make_request("ab", max_new_tokens=9, ignore_eos=True)
        chunks = generate(
            engine,
            ascii_tokenizer,
            Sampler(),
            [prepare(request, ascii_tokenizer, engine.shape)],
            prompt_cache=PromptCache(),
            drafting=None if draft is None else draft_by(engine, draft),
        )
        held.append((join(chunks), engine.slots))
    assert held[0] == held[1]


def test_a_draft_that_cannot_be_opened_changes_nothing(ascii_tokenizer: Tokenizer) -> None:
    """The text depends on no draft, so it goes on; why there is none is told once."""

    def fail() -> Draft:
        raise ModelError("no draft")

    engine = make_engine()
    request = make_request("a", max_new_tokens=9, ignore_eos=True)
    prepared = [prepare(request, ascii_tokenizer, engine.shape)]
    plain = join(generate(make_engine(), ascii_tokenizer, Sampler(), prepared))
    told: list[str] = []
    drafting = Drafting(engine, fail, tell=told.append)
    chunks = []
    for chunk in generate(engine, ascii_tokenizer, Sampler(), prepared, drafting=drafting):
        chunks.append(chunk)
        if drafting._opening is not None and not told:
            wait([drafting._opening])
    assert join(iter(chunks)) == plain
    assert told == ["going on without a draft: no draft"]


class _Clock:
    """Time that passes only where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Timed:
    """A draft that takes some time for each id."""

    name = "timed"

    def __init__(self, clock: _Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def propose(self, sequence: TokenSequence, count: int) -> list[int]:
        self._clock.now += count * self._seconds
        return [0] * count


def decode_long(
    tokenizer: Tokenizer, *, draft_seconds: float, right: float, tokens: int = 4000
) -> tuple[float, Drafting, list[int]]:
    """Draw so many tokens where a plain step takes a second and a call that verifies 1.3.

    `right`: the share of the proposed ids that are. Returns the seconds, the drafting, and how many
    ids each call verified.
    """
    clock, draw = _Clock(), random.Random(0)
    engine = make_engine(n_positions=10**6)
    drafting = draft_by(engine, _Timed(clock, draft_seconds), clock=clock)
    request = make_request("a", max_new_tokens=10**6)
    prepared = prepare(request, tokenizer, engine.shape)
    sequence = TokenSequence(tokenizer, prepared, 0, 10**6)
    made, counts = 0, []
    while made < tokens:
        proposed = drafting.propose(sequence)
        if proposed:
            accepted = next(
                (i for i in range(len(proposed)) if draw.random() >= right), len(proposed)
            )
            clock.now += 1.3
            drafting.note_verified(sequence, len(proposed), accepted, 1.3)
            counts.append(len(proposed))
            made += accepted + 1
        else:
            clock.now += 1
            drafting.note_plain(1)
            made += 1
    return clock.now, drafting, counts


def test_a_draft_that_is_never_right_rests(ascii_tokenizer: Tokenizer) -> None:
    """Longer each time: of 4,000 tokens it costs less than five hundredths."""
    seconds, drafting, _ = decode_long(ascii_tokenizer, draft_seconds=0.3, right=0.0)
    assert seconds < 4000 / 0.95
    assert drafting.counts.rested > 3500


def test_a_draft_that_is_slow_rests_though_it_is_right(ascii_tokenizer: Tokenizer) -> None:
    """An id costs more than the model's own step."""
    seconds, drafting, _ = decode_long(ascii_tokenizer, draft_seconds=1.1, right=0.9)
    assert seconds < 4000 / 0.95
    assert drafting.counts.rested > 3500


@pytest.mark.parametrize(("right", "counts"), [(0.98, range(6, 8)), (0.6, range(1, 4))])
def test_as_many_ids_are_proposed_as_pay(
    ascii_tokenizer: Tokenizer, right: float, counts: Sequence[int]
) -> None:
    """Many where most are right, few where an early one is wrong; it hardly rests."""
    seconds, drafting, proposed = decode_long(ascii_tokenizer, draft_seconds=0.2, right=right)
    later = proposed[50:]
    assert sum(count in counts for count in later) > 0.8 * len(later)
    assert drafting.counts.rested < 400 and seconds < 4000


def test_the_user_may_fix_how_many_are_proposed(ascii_tokenizer: Tokenizer) -> None:
    """Unless a limit is nearer."""
    engine = make_engine(n_positions=24)
    drafting = draft_by(engine, _Timed(_Clock(), 0), fixed=3)
    for _ in range(2):
        drafting.note_plain(1.0)
    for limit, proposed in ((9, 3), (3, 2)):
        request = make_request("a", max_new_tokens=limit)
        prepared = prepare(request, ascii_tokenizer, engine.shape)
        sequence = TokenSequence(ascii_tokenizer, prepared, 0, 24)
        assert len(drafting.propose(sequence)) == proposed


def make_sequence(tokenizer: Tokenizer, text: str, limit: int = 64) -> TokenSequence:
    request = make_request(text, max_new_tokens=40, ignore_eos=True)
    shape = make_engine(n_positions=limit).shape
    return TokenSequence(tokenizer, prepare(request, tokenizer, shape), 0, limit)


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("abcdeabc", "deabc"),  # what followed the last three
        ("xbc1abc2bc", "2bc"),  # of two places the later one
        ("bcd1 abc", "d1 abc"),  # the last two, where three are nowhere else
        ("abcdef", ""),
        ("a", ""),
    ],
)
def test_what_followed_before_is_looked_up(
    ascii_tokenizer: Tokenizer, text: str, proposed: str
) -> None:
    """Up to so many ids, by hand."""
    ids = LookupDraft().propose(make_sequence(ascii_tokenizer, text), 6)
    assert "".join(chr(32 + i) for i in ids) == proposed[:6]


def test_a_model_as_draft_feeds_what_it_lacks(ascii_tokenizer: Tokenizer) -> None:
    """After a proposal of which two were right: the third one that was drawn, and the next."""
    engine = make_engine(n_positions=64)
    draft = ModelDraft("it", engine, Sampler())
    sequence = make_sequence(ascii_tokenizer, "abc")
    proposed = draft.propose(sequence, 4)
    assert engine.calls == [("extend", 0, (65, 66, 67)), *(("decode", (i,)) for i in proposed[:3])]
    for token_id in (*proposed[:2], 9, 8):
        sequence.take(token_id, LOGITS_OF([0]))
    engine.calls.clear()
    draft.propose(sequence, 1)
    assert engine.calls == [("rewind", 0, 5), ("extend", 0, (9, 8))]


def test_a_model_as_draft_proposes_nothing_beyond_its_context(ascii_tokenizer: Tokenizer) -> None:
    """The text goes on without it."""
    draft = ModelDraft("it", make_engine(n_positions=6), Sampler())
    assert len(draft.propose(make_sequence(ascii_tokenizer, "abcd"), 7)) == 2
    assert draft.propose(make_sequence(ascii_tokenizer, "abcdef"), 7) == []
