"""Claims about making text safe to show."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.terminal.safety import make_safe

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\rb", "a␍b"),
        ("a\bb\x07\x00", "a␈b␇␀"),
        ("\x7f", "␡"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\u2028b\u2029c", "a<U+2028>b<U+2029>c"),
        ("\x0b\x0c\x85", "␋␌<U+0085>"),
    ],
)
def test_a_control_becomes_visible(text: str, shown: str) -> None:
    """As Unicode's picture of it, or by its number."""
    assert make_safe(text) == shown


@pytest.mark.parametrize("character", [*map(chr, [*range(32), *range(0x7F, 0xA0)]), *_BIDI])
def test_no_control_is_left_but_tab_and_newline(character: str) -> None:
    """All of C0, DEL, C1, and all that reorders text."""
    kept = character in "\t\n"
    assert (make_safe(character) == character) == kept


@pytest.mark.parametrize(
    "text", ["", "a b\tc\n", "é日本", "👩‍🚀", "[/red] [bold]x", "\u00a0\u00ad\u200b", "\ufffd"]
)
def test_text_that_controls_nothing_stays(text: str) -> None:
    """Also emoji that are joined from several, and what others take for markup."""
    assert make_safe(text) == text


@given(st.text())
def test_any_text_is_safe_then_and_stays_as_it_is(text: str) -> None:
    """Nothing that is left is a control; made safe twice is made safe once."""
    shown = make_safe(text)

    assert all(unicodedata.category(c) != "Cc" or c in "\t\n" for c in shown)
    assert make_safe(shown) == shown


@given(st.text(), st.text())
def test_pieces_are_made_safe_as_the_whole_is(first: str, second: str) -> None:
    """Streaming may cut the text anywhere."""
    assert make_safe(first) + make_safe(second) == make_safe(first + second)
