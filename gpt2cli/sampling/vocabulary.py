"""The vocabulary as bytes: which tokens begin with a text, and which hold it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Vocabulary:
    """The bytes that each token adds to the text, in an order that makes them quick to find."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """`pieces[id]`: empty for a token that adds none."""
        self.pieces = list(pieces)
        order = sorted(range(len(self.pieces)), key=self.pieces.__getitem__)
        self._sorted = [self.pieces[i] for i in order]
        self._ids = np.array(order, np.int64)  # of the sorted ones
        self.longest = max(map(len, self.pieces), default=0)

    def beginning_with(self, text: bytes) -> Ids:
        """Return the ids whose bytes begin with `text`."""
        first = bisect_left(self._sorted, text)
        past = bisect_right(self._sorted, text, lo=first, key=lambda piece: piece[: len(text)])
        return self._ids[first:past]

    def holding(self, text: bytes) -> Ids:
        """Return the ids whose bytes hold `text` anywhere."""
        return np.array([i for i, piece in enumerate(self.pieces) if text in piece], np.int64)


def unite(some: Iterable[Ids]) -> Ids:
    """Return the different ids of several arrays, in order."""
    return np.unique(np.concatenate([np.empty(0, np.int64), *some]))
