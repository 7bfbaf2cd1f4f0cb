"""Token healing: the last tokens of a prompt are drawn again, as beginnings of longer ones.

A prompt that stops within a word, or after a space, ends in tokens that seldom stand there in a
text that goes on: the model knows " government", not " govern" and "me". So they are taken off, and
what is drawn must begin with their bytes, which are not shown again.

Where a word goes on may be known after each of these tokens. So at each of them either a token is
drawn that covers all the bytes that are left, or the prompt's own token, as likely as it is that a
cover follows later. Other tokens that spell a part of the bytes would be likely for the sake of
texts that do not go on as the prompt does: " a" in place of " an".
"""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.sampling.logprobs import find_logsumexps
from gpt2cli.sampling.vocabulary import Ids, Vocabulary

Logits = NDArray[np.float32]


def count_healed(ids: Sequence[int], vocabulary: Vocabulary) -> int:
    """Return how many of a prompt's last ids to draw again: as many as one longer token covers."""
    healed, text = 0, b""
    for count, token_id in enumerate(reversed(ids), start=1):
        piece = vocabulary.pieces[token_id]
        text = piece + text
        if not piece or len(text) >= vocabulary.longest:
            break
        covers = vocabulary.beginning_with(text)
        if len(covers) and len(vocabulary.pieces[covers[-1]]) > len(
            text
        ):  # in order of their bytes
            healed = count
    return healed


class Healing:
    """The last ids of a prompt, and how far one completion has drawn their bytes again."""

    def __init__(self, ids: Sequence[int], vocabulary: Vocabulary) -> None:
        """`ids`: one or more, each with bytes."""
        pieces = [vocabulary.pieces[token_id] for token_id in ids]
        self._ids = tuple(ids)
        self._rests = [b"".join(pieces[place:]) for place in range(len(ids))]
        self._covers = [vocabulary.beginning_with(rest) for rest in self._rests]
        # Of each id but the last the log-probability that, once it is drawn, the others follow.
        self._ahead: Sequence[float] = (0.0,) * (len(ids) - 1)
        self._place = 0  # how many of the ids were drawn

    def __len__(self) -> int:
        """Return how many tokens were taken off the prompt."""
        return len(self._ids)

    @property
    def text(self) -> bytes:
        """What the completion must begin with."""
        return self._rests[0]

    @property
    def path(self) -> Sequence[int]:
        """The ids after which `look_ahead` wants logits, in their order; often none."""
        return self._ids[:-1]

    @property
    def is_open(self) -> bool:
        """Whether some of the bytes are still to be drawn."""
        return self._place < len(self._ids)

    @property
    def rest(self) -> bytes:
        """Those bytes."""
        return self._rests[self._place]

    @property
    def covers(self) -> Ids:
        """The ids whose bytes begin with them."""
        return self._covers[self._place]

    @property
    def own_id(self) -> int:
        """The prompt's own id at this place."""
        return self._ids[self._place]

    def fork(self) -> "Healing":
        """Return an independent copy."""
        return copy.copy(self)  # nothing in it is ever changed in place

    def look_ahead(self, logits: Logits) -> None:
        """Find how likely the rest is after each id of `path`, by the [K, V] logits there.

        Raises:
            ModelError: if the logits hold NaN or infinities.
        """
        norms = find_logsumexps(logits)
        ahead: list[float] = []
        for place in range(len(self.path), 0, -1):
            row = logits[place - 1].astype(np.float64)
            scores = row[self._covers[place]]
            if ahead:
                scores = np.append(scores, row[self._ids[place]] + ahead[0])
            ahead.insert(0, float(np.logaddexp.reduce(scores) - norms[place - 1]))
        self._ahead = ahead

    def process(self, logits: Logits) -> Logits:
        """Return [V] logits with minus infinity for what does not spell the bytes."""
        changed = np.full_like(logits, -np.inf)
        changed[self.covers] = logits[self.covers]
        if self._place < len(self._ahead):
            changed[self.own_id] = logits[self.own_id] + self._ahead[self._place]
        return changed

    def append(self, token_id: int) -> None:
        """Take note of a drawn id."""
        is_own = self._place < len(self._ahead) and token_id == self.own_id
        self._place = self._place + 1 if is_own else len(self._ids)
