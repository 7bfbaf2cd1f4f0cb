"""How tokens are written, and which characters a vocabulary cannot write."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

_ITEMS: Final = 1024  # items of a list that are written at once

_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", '"': r"\""}
_ASCII_END: Final = 0x80
_BMP_END: Final = 0x10000
_UTF8_BYTES: Final = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 256)}  # RFC 3629
_MOST_NAMED: Final = 8
_SURROGATES: Final = range(0xDC80, 0xDD00)  # by which Python's surrogateescape tells a byte


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's map from visible characters to bytes (openai/gpt-2 `src/encoder.py`)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


BYTE_OF: Final = _byte_alphabet()


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


def find_lacking_bytes(pieces: Iterable[bytes]) -> frozenset[int]:
    """Return the bytes of UTF-8 that no token has; `pieces` are those of all tokens."""
    return _UTF8_BYTES.difference(*pieces)


def find_unwritable(text: str, lacking: Collection[int]) -> list[str]:
    """Return the characters of a text that need one of these bytes, each once."""
    if not lacking:
        return []
    found = ((c, c.encode("utf-8", "surrogatepass")) for c in dict.fromkeys(text))
    return [character for character, spelt in found if any(byte in lacking for byte in spelt)]


def name_characters(characters: Collection[str]) -> str:
    """Return characters for a message, quoted."""
    named = [*map(ascii, characters)][:_MOST_NAMED]
    more = len(characters) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
