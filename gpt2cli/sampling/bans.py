"""Which ids would complete a banned text, whatever the tokens that spell it; it works on bytes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Pieces:
    """The bytes that each token adds to the text, in an order that makes them quick to find."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """`pieces[id]`: empty for a token that adds none."""
        self._pieces = list(pieces)
        order = sorted(range(len(self._pieces)), key=self._pieces.__getitem__)
        self._sorted = [self._pieces[i] for i in order]
        self._ids = np.array(order, np.int64)  # of the sorted ones
        self.longest = max(map(len, self._pieces), default=0)

    def beginning_with(self, text: bytes) -> Ids:
        """Return the ids whose bytes begin with `text`."""
        first = bisect_left(self._sorted, text)
        past = bisect_right(self._sorted, text, lo=first, key=lambda piece: piece[: len(text)])
        return self._ids[first:past]

    def holding(self, text: bytes) -> Ids:
        """Return the ids whose bytes hold `text` anywhere."""
        return np.array([i for i, piece in enumerate(self._pieces) if text in piece], np.int64)


class BannedTexts:
    """Texts that are never to appear.

    A text that stands in the prompt already may stay there; what the completion adds to the
    prompt's end counts.
    """

    def __init__(self, texts: Iterable[bytes], pieces: Pieces) -> None:
        """Look up what each of `texts`, none of them empty, means for the tokens."""
        whole: list[Ids] = []
        after: dict[bytes, list[Ids]] = {}  # a beginning -> ids that complete a text after it
        longest = 0
        for text in texts:
            whole.append(pieces.holding(text))
            longest = max(longest, len(text))
            for cut in range(max(1, len(text) - pieces.longest), len(text)):
                ids = pieces.beginning_with(text[cut:])
                if len(ids):
                    after.setdefault(text[:cut], []).append(ids)
        self._whole = _unite(whole)
        self._after = {beginning: _unite(ids) for beginning, ids in after.items()}
        self._lengths = sorted({len(beginning) for beginning in self._after})
        self.reach = max(1, longest - 1)

    def find_forbidden(self, tail: bytes) -> Sequence[Ids]:
        """Return the ids that would complete a text: just those, in one array or more.

        `tail`: at least the last `reach` bytes so far.
        """
        ends = (tail[-length:] for length in self._lengths)
        found = [self._after[end] for end in ends if end in self._after]
        return [self._whole, *found] if len(self._whole) else found


def _unite(some: Iterable[Ids]) -> Ids:
    return np.unique(np.concatenate([np.empty(0, np.int64), *some]))
