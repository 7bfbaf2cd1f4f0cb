"""Stop sequences that may come too early to count."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.detokenizer import StopMatcher


def feed(
    stops: Sequence[str], pieces: Iterable[str], *, early: int
) -> tuple[list[str], str | None]:
    """Return what is certain after each piece and what matched; `early` pieces do not count."""
    matcher = StopMatcher(stops)
    certain = [matcher.feed(piece, counts=place >= early) for place, piece in enumerate(pieces)]
    return [*certain, matcher.finish()], matcher.matched


def test_with_none_too_early_they_are_matched_as_ever() -> None:
    """`ab` is held back, then found."""
    assert feed(["ab"], "xaab", early=0) == (["x", "", "a", "", ""], "ab")


def test_one_that_is_complete_too_early_is_text() -> None:
    """It is shown, and the next one ends the text."""
    assert feed(["ab"], "abxab", early=2) == (["", "ab", "x", "", "", ""], "ab")
    assert feed(["ab"], "abx", early=3) == (["", "ab", "x", ""], None)


def test_one_that_begins_too_early_and_is_complete_in_time_counts() -> None:
    """No part of it is shown."""
    assert feed(["ab"], "xab", early=2) == (["x", "", "", ""], "ab")
    assert feed(["ab"], ["xa", "by"], early=1) == (["x", "", ""], "ab")


def test_one_may_begin_within_one_that_came_too_early() -> None:
    """After `aba`, too early, its last letter begins another."""
    assert feed(["aba"], "ababa", early=3) == (["", "", "ab", "", "", ""], "aba")


def test_several_too_early_in_one_piece_are_all_text() -> None:
    """What may begin one is still held back, and the longest of two at one place is the match."""
    assert feed(["ab", "b"], ["abbaba", "b"], early=1) == (["abbab", "", ""], "ab")
    assert feed(["ab"], ["ababa", "b"], early=1) == (["abab", "", ""], "ab")


def test_what_is_held_at_the_end_is_text() -> None:
    """Also if nothing ever counted."""
    assert feed(["abc"], "xab", early=9) == (["x", "", "", "ab"], None)


STOPS = st.lists(st.text("ab", min_size=1, max_size=3), max_size=3)
TEXTS = st.lists(st.text("ab", max_size=3), max_size=8)


@given(STOPS, TEXTS, st.integers(0, 9))
def test_the_text_ends_before_the_first_that_is_complete_in_time(
    stops: list[str], pieces: list[str], early: int
) -> None:
    """As a search of the whole text finds it, leaving out those with another one within them."""
    alone = [s for s in stops if not any(o in s[:-1] for o in stops)]
    certain, matched = feed(alone, pieces, early=early)
    whole, limit = "".join(pieces), len("".join(pieces[:early]))
    ends = [
        (end, -len(stop), stop)
        for stop in alone
        for end in range(limit + 1, len(whole) + 1)
        if whole[:end].endswith(stop)
    ]
    end, length, stop = min(ends, default=(len(whole), 0, None))
    assert ("".join(certain), matched) == (whole[: end + length], stop)


@pytest.mark.parametrize("early", [0, 3])
def test_without_any_the_text_passes_through(early: int) -> None:
    """Nothing is held back."""
    assert feed([], "abc", early=early) == (["a", "b", "c", ""], None)
