"""How the bytes of one token are written, in lines and in records: so that nothing is lost."""

from typing import Any, Final

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
