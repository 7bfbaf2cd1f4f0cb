"""Which characters a vocabulary cannot write: some lack the tokens of single bytes."""

from collections.abc import Collection, Iterable
from typing import Final

_UTF8_BYTES: Final = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 256)}
_MOST_NAMED: Final = 8


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
