"""One sample's side of sampling: its options, its random stream, and its history."""

import copy
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.processors import Places
from gpt2cli.sampling.stream import RandomStream


class Row:
    """One sample's options, its random stream and what is to be known of its ids so far."""

    def __init__(
        self,
        config: SamplingConfig,
        *,
        seed: int,
        sample: int,
        prompt_ids: Sequence[int],
        biases: Sequence[tuple[int, float]] = (),
    ) -> None:
        """`biases`: what `config.logit_bias` comes to: different ids, each with its own."""
        self.config = config
        self.warping = config.warping  # here once, and not at each step
        self.biases = _as_arrays(biases) if biases else None
        # What the next step may not choose, whatever `config` says; who sets it knows the texts.
        self.forbidden: Sequence[Places] = ()
        self._stream = RandomStream(seed, sample)
        self._step = 0
        self._seen = dict.fromkeys(prompt_ids)  # an ordered set
        self._counts: dict[int, int] = {}
        size = config.no_repeat_ngram
        self._ngrams = NGrams(size, prompt_ids) if size else None

    def fork(self) -> "Row":
        """Return a row that goes on from here by itself."""
        row = copy.copy(self)
        row._seen = dict(self._seen)
        row._counts = dict(self._counts)
        row._ngrams = self._ngrams and self._ngrams.fork()
        return row

    @property
    def seen(self) -> Sequence[int]:
        """The different ids of prompt and completion."""
        return tuple(self._seen)

    @property
    def counts(self) -> Mapping[int, int]:
        """How often each id is in the completion; ids that are not are left out."""
        return self._counts

    def find_forbidden(self) -> Sequence[Places]:
        """Return what this step may not choose: for its n-gram, and `forbidden`."""
        if self._ngrams is None:
            return self.forbidden
        return (*self.forbidden, self._ngrams.find_repeats())

    def uniform(self) -> float:
        """Return this step's random number."""
        return self._stream.uniform(self._step)

    def append(self, token_id: int) -> None:
        """Take note of the chosen id; the next step begins, with nothing `forbidden` yet."""
        self._seen[token_id] = None
        self._counts[token_id] = self._counts.get(token_id, 0) + 1
        if self._ngrams is not None:
            self._ngrams.append(token_id)
        self.forbidden = ()
        self._step += 1


class NGrams:
    """The n-grams of a text so far, by what they begin with.

    Hugging Face's NoRepeatNGramLogitsProcessor, in a time that does not grow with the text.
    """

    def __init__(self, size: int, ids: Iterable[int]) -> None:
        """Begin with a text of `ids`; `size`: of the n-grams, 1 or more."""
        self._size = size
        self._ids: list[int] = []
        self._followers: dict[tuple[int, ...], list[int]] = {}  # of the first n - 1 ids
        for token_id in ids:
            self.append(token_id)

    def fork(self) -> "NGrams":
        """Return n-grams that go on from here by themselves."""
        ngrams = copy.copy(self)
        ngrams._ids = list(self._ids)
        ngrams._followers = {beginning: list(ids) for beginning, ids in self._followers.items()}
        return ngrams

    def append(self, token_id: int) -> None:
        """Take note of the next id."""
        if len(self._ids) >= self._size - 1:
            self._followers.setdefault(self._beginning(), []).append(token_id)
        self._ids.append(token_id)

    def find_repeats(self) -> NDArray[np.int64]:
        """Return the ids that would make an n-gram that there was before."""
        if len(self._ids) < self._size:
            return np.empty(0, np.int64)
        return np.array(self._followers.get(self._beginning(), ()), np.int64)

    def _beginning(self) -> tuple[int, ...]:
        """Return the last n - 1 ids."""
        return tuple(self._ids[len(self._ids) - self._size + 1 :])


def _as_arrays(
    biases: Sequence[tuple[int, float]],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    ids, values = zip(*biases, strict=True)
    return np.array(ids, np.int64), np.array(values, np.float32)
