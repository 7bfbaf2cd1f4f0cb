"""Claims about how the bytes of a token are written."""

import ast
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpt2cli.spelling import describe_piece, format_in_parts, join_in_parts, quote_piece


@pytest.mark.parametrize(
    ("piece", "quoted"),
    [
        (b"", '""'),
        (b" time", '" time"'),
        (b'a"b\\', r'"a\"b\\"'),
        (b"\n\r\t", r'"\n\r\t"'),
        (b"\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("é日👩".encode(), '"é日👩"'),
        (b"\xf0\x9f", r'"\xf0\x9f"'),
        (b"\xe9 \xc3", r'"\xe9 \xc3"'),
        ("\x85\u2028\u200d\u202e".encode(), r'"\u0085\u2028\u200d\u202e"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        (b"\xed\xb2\x80", r'"\xed\xb2\x80"'),
        (b"[bold]x", '"[bold]x"'),
    ],
)
def test_a_piece_is_quoted_as_in_c(piece: bytes, quoted: str) -> None:
    """What cannot be seen and what is no UTF-8 is escaped, a byte unlike a character."""
    assert quote_piece(piece) == quoted


@given(st.text())
@example("\ud7ff\ue000\U0010ffff")
def test_nothing_of_a_text_is_lost(text: str) -> None:
    """Python reads the quoted text as the text; it is one line of what can be seen."""
    quoted = quote_piece(text.encode())
    assert ast.literal_eval(quoted) == text
    assert quoted.isprintable()


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_different_pieces_are_quoted_differently(one: bytes, other: bytes) -> None:
    assert (quote_piece(one) == quote_piece(other)) is (one == other)


def test_json_has_the_bytes_only_where_the_text_cannot_tell_them() -> None:
    """U+FFFD may stand for any bytes, or for itself."""
    assert describe_piece("é".encode()) == {"text": "é"}
    assert describe_piece("�".encode()) == {"text": "�"}
    assert describe_piece(b" \xc3") == {"text": " �", "bytes": [0x20, 0xC3]}


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 5000])
def test_what_is_written_in_parts_is_what_would_be_written_at_once(count: int) -> None:
    """Around the number of items that a part has; nothing is asked for before it is written."""
    items = [{"id": number, "text": "é"} for number in range(count)]
    record = {"a": None, "items": items, "b": [1, "日"]}
    parts = list(format_in_parts({**record, "items": iter(items)}))
    assert "".join(parts) == json.dumps(record, ensure_ascii=False) + "\n"
    assert max(map(len, parts)) < 40 * 1024
    texts = [str(number) for number in range(count)]
    assert "".join(join_in_parts(texts, ", ")) == ", ".join(texts)


def test_a_part_holds_no_more_than_some_items() -> None:
    """Of ten thousand the first thousand or so are there before the others are made."""
    items = iter(range(10_000))
    parts = format_in_parts({"items": items})
    assert next(parts) == '{"items": '
    assert next(parts).startswith("[0, 1, ")
    assert next(items) < 2_000
