"""Which characters the bytes that a vocabulary has can spell, for a regular expression."""

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

_CHARACTERS: Final = 0x110000
_SURROGATES: Final = slice(0xD800, 0xE000)


def describe_writable(lacking: Collection[int]) -> str:
    r"""Return the ranges of characters that need none of these bytes, as \x{20}-\x{7e}."""
    edges = np.flatnonzero(np.diff(_find_writable(lacking), prepend=False, append=False))
    ranges = edges.reshape(-1, 2).tolist()
    return "".join(rf"\x{{{first:x}}}-\x{{{end - 1:x}}}" for first, end in ranges)


def _find_writable(lacking: Collection[int]) -> NDArray[np.bool_]:
    """Return of each character whether it can be written: by the bytes of its UTF-8."""
    has = np.isin(np.arange(256), list(lacking), invert=True)
    code = np.arange(_CHARACTERS)
    last, third, second = (has[0x80 | (code >> shift & 0x3F)] for shift in (0, 6, 12))
    two = has[0xC0 | (code >> 6 & 0x1F)] & last
    three = has[0xE0 | (code >> 12 & 0xF)] & third & last
    four = has[0xF0 | (code >> 18 & 0x7)] & second & third & last
    bounds = [code < 0x80, code < 0x800, code < 0x10000]
    writable: NDArray[np.bool_] = np.select(bounds, [has[code & 0x7F], two, three], four)
    writable[_SURROGATES] = False
    return writable
