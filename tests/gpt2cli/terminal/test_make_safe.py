"""Claims about making text safe to show."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.terminal.notes import make_safe

# Format characters that are needed: joiners of emoji and scripts (of Egyptian hieroglyphs too), and
# those that are seen, Arabic, Syriac and Kaithi number signs and marks (Unicode's
# Prepended_Concatenation_Mark).
_JOINERS = "\u200c\u200d" + "".join(map(chr, range(0x13430, 0x13440)))
_SEEN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"


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
        ("\u200b\U000e0041", "<U+200B><U+E0041>"),
        ("\x0b\x0c\x85", "␋␌<U+0085>"),
    ],
)
def test_a_control_becomes_visible(text: str, shown: str) -> None:
    assert make_safe(text) == shown


@pytest.mark.parametrize(
    ("category", "but"), [("Cc", "\t\n"), ("Zl", ""), ("Zp", ""), ("Cf", _JOINERS + _SEEN)]
)
def test_no_control_and_no_format_character_is_left_but_these(category: str, but: str) -> None:
    """By Unicode's own categories; what is shown in their place stays as it is."""
    characters = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) == category}
    assert {c for c in characters if make_safe(c) == c} == characters & set(but)
    shown = "".join(map(make_safe, characters))
    assert make_safe(shown) == shown


@pytest.mark.parametrize(
    "text",
    ["", "a b\tc\n", "é日本", "👩‍🚀", "[/red] [bold]x", "❤️", "\u00a0", "می\u200cخواهم", "\ufffd"],
)
def test_text_that_controls_nothing_stays(text: str) -> None:
    """Also emoji that are joined from several, and what others take for markup."""
    assert make_safe(text) == text


@given(st.text(), st.text())
def test_pieces_are_made_safe_as_the_whole_is(first: str, second: str) -> None:
    """Streaming may cut the text anywhere."""
    assert make_safe(first) + make_safe(second) == make_safe(first + second)
