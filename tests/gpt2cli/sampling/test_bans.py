"""Banned texts: just the ids that would complete one are forbidden, however they are cut."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.sampling import BannedTexts, Pieces

LETTERS = [b"", b"a", b"b", b"c", b"ab", b"bc", b"abc", b"ca", b"bb", b"cab", b"\xff", b"a\xff"]


def find(texts: Sequence[bytes], tail: bytes, pieces: Sequence[bytes] = LETTERS) -> set[bytes]:
    """Return the pieces that are forbidden after a text."""
    found = BannedTexts(texts, Pieces(pieces)).find_forbidden(tail)
    return {pieces[token_id] for ids in found for token_id in ids}


def test_a_text_within_a_piece_is_forbidden_always() -> None:
    """At its beginning, middle or end, whatever came before."""
    for tail in (b"", b"a", b"xyz"):
        assert find([b"ab"], tail) >= {b"ab", b"abc", b"cab"}
        assert find([b"abc"], tail) >= {b"abc"}


def test_a_text_is_not_completed_across_pieces() -> None:
    """After `a` all that begins with `b`; after anything else none of it."""
    assert find([b"ab"], b"ca") == {b"ab", b"abc", b"cab", b"b", b"bc", b"bb"}
    assert find([b"ab"], b"b") == {b"ab", b"abc", b"cab"}


def test_a_text_of_three_pieces_is_stopped_at_the_last() -> None:
    """`c`, `a` and `b` may come, only not in this order."""
    assert find([b"cab"], b"c") == {b"cab", b"ab", b"abc"}
    assert find([b"cab"], b"ca") == {b"cab", b"b", b"bc", b"bb"}


def test_what_ends_twice_is_forbidden_for_both() -> None:
    """`aab` after `aa`: the second `a` may begin it as well; `ab` after it is `aab` too."""
    assert find([b"abab"], b"abab") == {b"ab", b"abc"}
    assert find([b"aab"], b"aa") == {b"b", b"bc", b"bb", b"ab", b"abc"}


def test_several_texts_are_forbidden_together() -> None:
    """Each as if alone."""
    assert find([b"bb", b"bc"], b"b") == {b"bb", b"b", b"bc", b"abc", b"c", b"ca", b"cab"}


def test_a_piece_without_bytes_completes_nothing() -> None:
    """End of text adds none, so it is never forbidden."""
    for texts in ([b"a"], [b"a", b"b", b"c"], [b"\xff"]):
        assert b"" not in find(texts, b"abc")


def test_bytes_that_are_no_text_of_their_own_are_found() -> None:
    """`é` is C3 A9 and may come in two tokens."""
    assert find(["é".encode()], b"caf\xc3", [b"\xc3", b"\xa9", b"\xa9!", b"\xc3\xa9"]) == {
        *(b"\xa9", b"\xa9!", b"\xc3\xa9")
    }


def test_a_text_longer_than_all_pieces_together_is_found_by_its_end() -> None:
    """Only the last cuts can be reached in one step."""
    text = b"abc" * 400 + b"b"
    banned = BannedTexts([text], Pieces(LETTERS))
    assert banned.reach == 1200
    assert [ids.tolist() for ids in banned.find_forbidden(text[:-1])] == [[2, 5, 8]]
    assert not banned.find_forbidden(text[1:-1])


@pytest.mark.parametrize("texts", [[b"x"], [b"xyz", b"zz"], []])
def test_texts_that_no_piece_can_spell_forbid_nothing(texts: Sequence[bytes]) -> None:
    """Nor does a ban of nothing."""
    assert not BannedTexts(texts, Pieces(LETTERS)).find_forbidden(b"xyx")
    assert not BannedTexts(texts, Pieces([])).find_forbidden(b"xyx")


PIECES = st.lists(st.binary(max_size=3).map(lambda raw: bytes(97 + b % 3 for b in raw)), max_size=9)
TEXTS = st.lists(st.text("abc", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=3)


@given(PIECES, TEXTS, st.text("abc", max_size=8).map(str.encode))
def test_just_what_would_complete_a_text_is_forbidden(
    pieces: list[bytes], texts: list[bytes], before: bytes
) -> None:
    """Of any vocabulary: the pieces with which a text ends that did not before, and no others."""
    found = find(texts, before, pieces)
    expected = {
        piece
        for piece, text in itertools.product(pieces, texts)
        if text in before[-len(text) + 1 or len(before) :] + piece
    }
    assert found == expected


@given(PIECES, TEXTS, st.text("abc", max_size=8).map(str.encode), st.data())
def test_a_text_never_appears(
    pieces: list[bytes], texts: list[bytes], prompt: bytes, data: st.DataObject
) -> None:
    """However the ids fall: ten of those that are not forbidden, after any prompt."""
    banned = BannedTexts(texts, Pieces(pieces))
    completion = b""
    for _ in range(10):
        tail = (prompt + completion)[-banned.reach :]
        forbidden = {i for ids in banned.find_forbidden(tail) for i in ids}
        allowed = [i for i in range(len(pieces)) if i not in forbidden]
        if not allowed:
            break
        completion += pieces[data.draw(st.sampled_from(allowed))]
    for text in texts:
        assert text not in completion
        assert (prompt + completion).count(text, max(0, len(prompt) - len(text) + 1)) == 0
