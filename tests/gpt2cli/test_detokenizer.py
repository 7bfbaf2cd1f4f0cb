"""Ids to text: whole characters however they are cut, and nothing of a stop sequence."""

import itertools
from collections.abc import Iterable, Sequence

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from gpt2cli.detokenizer import Detokenizer, StopMatcher
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture(scope="module", params=["gpt2_folder", "starter"])
def both(request: pytest.FixtureRequest) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """Return a tokenizer, and the library's own; the starter's <|endoftext|> is its first id."""
    folder: ModelFolder = request.getfixturevalue(request.param)
    return Tokenizer(folder), tokenizers.Tokenizer.from_file(str(folder.tokenizer_file))


def stream(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """Return the pieces that the detokenizer gives for ids one at a time."""
    detokenizer = Detokenizer(tokenizer)
    return [*map(detokenizer.add, ids), detokenizer.finish()]


@given(data=st.data())
def test_any_ids_stream_as_they_decode(
    both: tuple[Tokenizer, tokenizers.Tokenizer], data: st.DataObject
) -> None:
    """Broken UTF-8 too: single bytes are drawn often. The library's own decoding is the judge."""
    tokenizer, oracle = both
    one = st.integers(0, 256) | st.integers(0, oracle.get_vocab_size() - 1)
    ids = data.draw(st.lists(one, max_size=12))
    text = "".join(stream(tokenizer, ids))
    assert text == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")
    assert text == oracle.decode(ids, skip_special_tokens=True)


@example("👩‍🚀 日本")
@given(st.text(max_size=12))
def test_valid_text_streams_without_a_replacement(gpt2_tokenizer: Tokenizer, text: str) -> None:
    """No piece of valid text holds a U+FFFD that the text does not have."""
    pieces = stream(gpt2_tokenizer, gpt2_tokenizer.encode(text) if text else [])
    assert "".join(pieces) == text
    assert REPLACEMENT in text or not any(REPLACEMENT in piece for piece in pieces)


@pytest.mark.parametrize(
    ("text", "cut", "pieces"),
    [("é", 2, ["", "é", ""]), ("🚀", 3, ["", "", "", REPLACEMENT]), ("", 0, [""])],
)
def test_a_character_is_given_as_soon_as_it_is_whole(
    byte_tokenizer: Tokenizer, text: str, cut: int, pieces: list[str]
) -> None:
    """A part of one is one U+FFFD at the end, none before."""
    ids = byte_tokenizer.encode(text)[:cut] if text else []
    assert stream(byte_tokenizer, ids) == pieces


def test_a_silent_id_within_a_character_does_not_break_it(byte_tokenizer: Tokenizer) -> None:
    """<|endoftext|> between the bytes of a character adds nothing (--ignore-eos)."""
    first, second = byte_tokenizer.encode("é")
    assert "".join(stream(byte_tokenizer, [first, 256, second])) == "é"


# Stop sequences; two letters make overlaps frequent.

TEXTS = st.text("ab", max_size=14)
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


def feed(
    stops: Sequence[str], pieces: Iterable[str], *, early: int = 0
) -> tuple[list[str], str | None]:
    """Return what is certain after each piece and what matched; `early` pieces do not count."""
    matcher = StopMatcher(stops)
    certain = [matcher.feed(piece, counts=number >= early) for number, piece in enumerate(pieces)]
    return [*certain, matcher.finish()], matcher.matched


@pytest.mark.parametrize(
    ("stops", "pieces", "certain", "matched"),
    [
        (["User:"], ["Hi\nUs", "er", ":x"], ["Hi\n", "", "", ""], "User:"),  # never in part
        (["User:"], ["Us", "e", "d"], ["", "", "Used", ""], None),  # it only began like one
        (["User:"], ["to the User"], ["to the ", "User"], None),
        (["112"], [*"1112"], ["", "", "1", "", ""], "112"),  # a false start hides no match
        (["abcd", "bc"], ["abcd"], ["a", ""], "bc"),  # complete first
        (["User:", "\n\nUser:"], ["Hi\n\nUser:"], ["Hi", ""], "\n\nUser:"),  # the longest
        (["x"], ["axb", "c"], ["a", "", ""], "x"),  # nothing follows
        ([], ["ab"], ["ab", ""], None),
        ([""], ["ab"], ["ab", ""], None),
    ],
)
def test_text_is_given_unless_a_stop_sequence_may_claim_it(
    stops: list[str], pieces: list[str], certain: list[str], matched: str | None
) -> None:
    """By hand: what is certain after each piece, and at the end."""
    assert feed(stops, pieces) == (certain, matched)


@pytest.mark.parametrize(
    ("stops", "pieces", "early", "certain", "matched"),
    [
        (["ab"], "abxab", 2, ["", "ab", "x", "", "", ""], "ab"),  # the first one is text
        (["ab"], "xab", 2, ["x", "", "", ""], "ab"),  # it begins too early, and counts
        (["aba"], "ababa", 3, ["", "", "ab", "", "", ""], "aba"),  # one within another
        (["ab", "b"], ["abbaba", "b"], 1, ["abbab", "", ""], "ab"),  # several in a piece
        (["abc"], "xab", 9, ["x", "", "", "ab"], None),  # what is held at the end is text
    ],
)
def test_a_stop_sequence_that_is_complete_too_early_is_text(
    stops: list[str], pieces: Sequence[str], early: int, certain: list[str], matched: str
) -> None:
    """By hand; what may still become one in time is held back."""
    assert feed(stops, pieces, early=early) == (certain, matched)


def find_first(stops: list[str], text: str, early: int = 0) -> tuple[str, str | None]:
    """Read character by character until the text read so far ends in a stop, the longest one."""
    for end in range(early + 1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(stops=STOPS, text=TEXTS, cuts=st.lists(st.integers(0, 14), max_size=5))
def test_the_outcome_is_that_of_reading_by_character(
    stops: list[str], text: str, cuts: list[int]
) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    certain, matched = feed(stops, [text[a:b] for a, b in itertools.pairwise(edges)])
    assert ("".join(certain), matched) == find_first(stops, text)


@given(STOPS, st.lists(st.text("ab", max_size=3), max_size=8), st.integers(0, 9))
def test_the_text_ends_before_the_first_that_is_complete_in_time(
    stops: list[str], pieces: list[str], early: int
) -> None:
    """As a search of the whole text finds it, leaving out those with another one within them."""
    alone = [stop for stop in stops if not any(other in stop[:-1] for other in stops)]
    certain, matched = feed(alone, pieces, early=early)
    expected = find_first(alone, "".join(pieces), len("".join(pieces[:early])))
    assert ("".join(certain), matched) == expected


@given(stops=STOPS, text=TEXTS)
def test_all_that_no_stop_can_claim_is_released_at_once(stops: list[str], text: str) -> None:
    """After each character only the longest ending that begins a stop is held back."""
    matcher, shown = StopMatcher(stops), ""
    for end, character in enumerate(text, 1):
        shown += matcher.feed(character)
        if matcher.matched is not None:
            return
        endings = (text[start:end] for start in range(end + 1))
        held = next(e for e in endings if not e or any(s.startswith(e) for s in stops))
        assert shown + held == text[:end]
