"""The step of a beam search over logits: the best continuations of all beams together.

As Hugging Face's `_beam_search` (transformers 5.24, generation/utils.py) without sampling: log
probabilities, to which the processors are applied, added to what each beam has. No warpers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import BeamConfig
from gpt2cli.sampling.logprobs import find_normalisers
from gpt2cli.sampling.row import Row
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.sampling.warpers import find_best

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Continuation:
    """A beam with one more token."""

    parent: int  # the place of the beam
    token_id: int
    total: float  # the sum of its log-probabilities


def find_continuations(
    sampler: Sampler, logits: Logits, rows: Sequence[Row], totals: Sequence[float], *, count: int
) -> list[Continuation]:
    """Return the `count` best continuations of n beams by [n, V] logits, best first.

    Fewer where fewer are allowed; ties to the earlier beam, then to the lower id.

    Raises:
        ModelError: if the logits hold NaN or infinities.
    """
    logprobs = (logits - find_normalisers(logits)[:, None]).astype(np.float32)  # [n, V]
    scores = np.stack(sampler.process(logprobs, rows))  # [n, V]
    ids = find_best(scores, min(count, scores.shape[1]))  # [n, c]
    sums = np.take_along_axis(scores, ids, axis=1) + np.array(totals, np.float64)[:, None]
    order = np.argsort(-sums, axis=None, kind="stable")[:count]  # of n · c
    return [
        Continuation(int(place) // ids.shape[1], int(ids.flat[place]), float(sums.flat[place]))
        for place in order
        if np.isfinite(sums.flat[place])
    ]


def rate(config: BeamConfig, total: float, length: int) -> float:
    """Return the score of `length` tokens, EOS counted, whose logprobs add up to `total`."""
    return total / math.pow(length, config.length_penalty)
