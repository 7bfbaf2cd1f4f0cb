"""A sequence's history: what it remembers of its ids, and what may therefore not follow."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.config import ConstraintConfig, SamplingConfig
from gpt2cli.sampling.constraints import Constraint, ConstraintCompiler
from gpt2cli.sampling.history import BannedTexts, History, NGrams
from gpt2cli.sampling.vocabulary import Vocabulary

ASCII = [bytes([code]) for code in range(128)]
EOS = 127


def find_masked(texts: Sequence[bytes], before: bytes, pieces: Sequence[bytes]) -> set[bytes]:
    banned = BannedTexts(texts, Vocabulary([*pieces, before]))
    masks = banned.find_mask(banned.extend(b"", [len(pieces)]))
    return {pieces[i] for ids in masks for i in ids if i < len(pieces)}


# Banned texts


def test_bytes_that_are_no_text_of_their_own_are_found() -> None:
    """`é` is C3 A9 and may come in two tokens."""
    pieces = [b"\xc3", b"\xa9", b"\xa9!", b"\xc3\xa9"]
    assert find_masked(["é".encode()], b"caf\xc3", pieces) == {b"\xa9", b"\xa9!", b"\xc3\xa9"}


def test_a_text_longer_than_all_pieces_together_is_found_by_all_of_it() -> None:
    text, pieces = b"abc" * 400 + b"b", [b"", b"a", b"b", b"ab", b"bc", b"bb"]
    assert find_masked([text], text[:-1], pieces) == {b"b", b"bc", b"bb"}
    assert find_masked([text], text[1:-1], pieces) == set()


PIECES = st.lists(st.binary(max_size=3).map(lambda raw: bytes(97 + b % 3 for b in raw)), max_size=9)
TEXTS = st.lists(st.text("abc", min_size=1, max_size=5).map(str.encode), max_size=3)


@given(PIECES, TEXTS, st.text("abc", max_size=8).map(str.encode))
def test_just_what_would_complete_a_text_is_masked(
    pieces: list[bytes], texts: list[bytes], before: bytes
) -> None:
    """Of any vocabulary: the pieces with which a text ends that did not before, and no others."""
    expected = {
        piece
        for piece, text in itertools.product(pieces, texts)
        if text in before[-len(text) + 1 or len(before) :] + piece
    }
    assert find_masked(texts, before, pieces) == expected


# N-grams


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 5) | st.just(10**30))
def test_repeats_are_those_that_a_search_finds(ids: list[int], size: int) -> None:
    """Exactly the ids that make the last n of the text stand in it already."""
    text = tuple(ids)
    there = {text[begin : begin + size] for begin in range(len(text) - size + 1)}
    expected = {i for i in range(3) if (*text, i)[-size:] in there}
    assert set(NGrams(size, ids).find_mask().tolist()) == expected


# Histories


def make(
    prompt: str = "",
    *,
    bans: Sequence[bytes] = (),
    no_repeat_ngram: int = 0,
    constraint: Constraint | None = None,
    stop_ids: Sequence[int] = (),
    ignore_eos: bool = False,
    min_new_tokens: int = 0,
) -> History:
    return History(
        SamplingConfig(no_repeat_ngram=no_repeat_ngram),
        seed=0,
        prompt_ids=list(prompt.encode()),
        bans=BannedTexts(bans, Vocabulary([*ASCII[:EOS], b""])) if bans else None,
        constraint=constraint,
        eos_ids=[EOS],
        stop_ids=stop_ids,
        ignore_eos=ignore_eos,
        min_new_tokens=min_new_tokens,
    )


def masked(history: History) -> set[str]:
    mask = np.zeros(128, bool)
    for part in history.find_masks():
        mask[part] = True
    return {"EOS" if i == EOS else chr(i) for i in np.flatnonzero(mask)}


def test_nothing_is_masked_if_nothing_is_asked() -> None:
    history = make("a")
    history.append(1)
    assert not history.find_masks()


@pytest.mark.parametrize("token_id", [1, EOS])
def test_eos_is_masked_before_enough_is_drawn(token_id: int) -> None:
    """At the third token it may come; the prompt does not count, an ignored EOS does."""
    history = make("aa", min_new_tokens=2, ignore_eos=True)
    for expected in ({"EOS"}, {"EOS"}, set[str]()):
        assert masked(history) == expected
        history.append(token_id)


def test_a_stop_token_is_masked_before_enough_is_drawn() -> None:
    history = make(stop_ids=[ord("s")], min_new_tokens=1)
    assert masked(history) == {"s", "EOS"}
    history.append(1)
    assert masked(history) == set()


def test_a_ban_sees_the_end_of_the_prompt() -> None:
    """`ca` of the prompt must not become `cat`; the ban of one letter holds always."""
    history = make("a ca", bans=[b"cat", b"z", b"taca!"])
    assert masked(history) == {"z", "t"}
    history.append(ord("c"))
    assert masked(history) == {"z"}


def test_special_tokens_do_not_cut_a_banned_text() -> None:
    """They are not printed: what is before and after them stands side by side."""
    history = make("x", bans=[b"ab"])
    for token_id in (ord("a"), EOS, EOS):
        history.append(token_id)
        assert masked(history) == {"b"}


def test_all_that_is_asked_is_masked_together() -> None:
    history = make("acac", bans=[b"b"], no_repeat_ngram=2, min_new_tokens=1)
    assert masked(history) == {"b", "a", "EOS"}


def test_a_constraint_masks_what_it_does_not_allow_and_eos_until_it_is_met() -> None:
    """`a`, perhaps a `b`; then nothing may follow. An ignored EOS is masked always."""
    compiler = ConstraintCompiler([*ASCII[:EOS], b""], lambda text: list(text.encode()))
    constraint = compiler.compile(ConstraintConfig(regex="ab?"))
    every = {chr(code) for code in range(EOS)} | {"EOS"}
    history = make("zz", constraint=constraint)
    assert masked(history) == every - {"a"}
    history.append(ord("a"))
    assert masked(history) == every - {"b", "EOS"}
    ignoring = make(constraint=constraint, ignore_eos=True)
    ignoring.append(ord("a"))
    assert masked(ignoring) == every - {"b"}
    assert not history.complete
    history.append(ord("b"))
    assert history.complete
