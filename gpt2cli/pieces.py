"""How tokens are written, in lines and records: nothing is lost, and many are written in parts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

_ITEMS: Final = 1024  # of a list that are written at once

_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", '"': r"\""}
_ASCII_END: Final = 0x80
_BMP_END: Final = 0x10000
_SURROGATES: Final = range(0xDC80, 0xDD00)  # by which Python's surrogateescape tells a byte


def quote_piece(piece: bytes) -> str:
    r"""Return bytes in double quotes with C's escapes: bytes that are no UTF-8 are as \xf0.

    A character that cannot be seen is as \x1b or \u2028; no other byte of the result is a control.
    """
    text = piece.decode("utf-8", "surrogateescape")
    return f'"{"".join(map(_escape, text))}"'


def describe_piece(piece: bytes) -> dict[str, Any]:
    """Return a token's text for JSON, with its bytes where they are no UTF-8 by themselves."""
    try:
        return {"text": piece.decode()}
    except UnicodeDecodeError:
        return {"text": piece.decode("utf-8", "replace"), "bytes": list(piece)}


def join_in_parts(texts: Iterable[str], separator: str) -> Iterator[str]:
    """Yield texts as `join` would return them, some at a time."""
    left, before = iter(texts), ""
    while some := list(islice(left, _ITEMS)):
        yield before + separator.join(some)
        before = separator


def format_in_parts(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a record as one line of JSON, in parts; an iterator in it becomes a list."""
    before = "{"
    for key, value in record.items():
        yield f"{before}{json.dumps(key)}: "
        if isinstance(value, Iterator):
            separator = "["
            while some := list(islice(value, _ITEMS)):
                yield separator + _to_json(some)[1:-1]
                separator = ", "
            yield "[]" if separator == "[" else "]"
        else:
            yield _to_json(value)
        before = ", "
    yield "}\n"


_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if code in _SURROGATES:
        return rf"\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < _ASCII_END:
        return rf"\x{code:02x}"
    return rf"\u{code:04x}" if code < _BMP_END else rf"\U{code:08x}"
