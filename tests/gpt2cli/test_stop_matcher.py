"""Stop sequences in streamed text: none is shown, nothing else is lost or kept waiting."""

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.detokenizer import StopMatcher

# Two letters make overlaps frequent.
TEXTS = st.text("ab", max_size=14)
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


@dataclass(frozen=True)
class Outcome:
    """What came of a whole stream."""

    shown: str
    matched: str | None


def run(stops: list[str], pieces: list[str]) -> Outcome:
    """Feed the pieces and finish."""
    matcher = StopMatcher(stops)
    shown = "".join(map(matcher.feed, pieces))
    return Outcome(shown + matcher.finish(), matcher.matched)


def find_first_stop(stops: list[str], text: str) -> Outcome:
    """Read character by character until the text read so far ends in a stop, the longest one."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return Outcome(text[: end - len(longest)], longest)
    return Outcome(text, None)


def cut(text: str, places: list[int]) -> list[str]:
    """Return the text in pieces, cut at these places."""
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(stops=STOPS, text=TEXTS, places=st.lists(st.integers(0, 14), max_size=5))
def test_the_outcome_is_that_of_reading_by_character(
    stops: list[str], text: str, places: list[int]
) -> None:
    """However the stream is cut, text and stop are those of the character-by-character oracle."""
    assert run(stops, cut(text, places)) == find_first_stop(stops, text)


@given(stops=STOPS, text=TEXTS)
def test_all_that_no_stop_can_claim_is_released_at_once(stops: list[str], text: str) -> None:
    """After each character only the longest ending that begins a stop is held back."""
    matcher, shown = StopMatcher(stops), ""
    for end, character in enumerate(text, 1):
        shown += matcher.feed(character)
        if matcher.matched is not None:
            return
        so_far = text[:end]
        endings = (so_far[start:] for start in range(end + 1))
        held = next(e for e in endings if not e or any(s.startswith(e) for s in stops))
        assert shown + held == so_far


def test_no_part_of_a_stop_is_ever_shown() -> None:
    """`User:` in three pieces: nothing of it appears on the way."""
    matcher = StopMatcher(["User:"])
    assert [matcher.feed(piece) for piece in ("Hi\nUs", "er", ":x")] == ["Hi\n", "", ""]
    assert matcher.matched == "User:"


def test_text_that_only_begins_like_a_stop_is_released() -> None:
    """`Use` is given as soon as `d` shows that no `User:` comes."""
    matcher = StopMatcher(["User:"])
    assert [matcher.feed(piece) for piece in ("Us", "e", "d")] == ["", "", "Used"]


def test_text_held_at_the_end_is_not_lost() -> None:
    """A completion that ends within `User` ends with it."""
    assert run(["User:"], ["to the User"]) == Outcome("to the User", None)


def test_a_stop_that_overlaps_itself_is_found() -> None:
    """1 1 2 within 1 1 1 2: the failed start at the first 1 does not hide the match."""
    assert run(["112"], list("1112")) == Outcome("1", "112")


def test_the_stop_that_is_complete_first_wins() -> None:
    """`bc` is complete before `abcd`, though that one began earlier."""
    assert run(["abcd", "bc"], ["abcd"]) == Outcome("a", "bc")


def test_of_stops_complete_together_the_longest_wins() -> None:
    r"""`\n\nUser:` and `User:` end at the same character: both newlines go."""
    assert run(["User:", "\n\nUser:"], ["Hi\n\nUser:"]) == Outcome("Hi", "\n\nUser:")


def test_nothing_follows_a_match() -> None:
    """What is fed after the match is dropped, the end included."""
    matcher = StopMatcher(["x"])
    assert [matcher.feed("axb"), matcher.feed("c"), matcher.finish()] == ["a", "", ""]


@pytest.mark.parametrize("stops", [[], [""]])
def test_without_stops_nothing_is_held(stops: list[str]) -> None:
    """No stop, or an empty one, changes nothing."""
    matcher = StopMatcher(stops)
    assert [matcher.feed("ab"), matcher.finish()] == ["ab", ""]
    assert matcher.matched is None
