"""Logits warpers: they reshape the distribution, in Hugging Face's order and definitions.

temperature → top-k → top-p → min-p. One difference: top-k keeps exactly k, ties to the lower id.
All rows are warped at once. Probabilities are float64 and stay unnormalised; sums run from left to
right (`cumsum`), so a row's result does not depend on its neighbours.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.sampling.config import SamplingConfig

Logits = NDArray[np.float32]
Weights = NDArray[np.float64]

_FEWEST_GROUPS: Final = 1024
_FIRST_NUCLEUS: Final = 1024  # as many ids as top-p 0.9 of GPT-2 keeps at most steps


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be drawn in each row: ids, and weights in proportion to their probabilities."""

    ids: NDArray[np.int64]  # [n, C]
    weights: Weights  # [n, C], 0 where a warper removed the id


def warp(logits: Logits, config: SamplingConfig) -> Candidates:
    """Return the candidates of each row of [n, V] logits, which hold no NaN."""
    vocab_size = logits.shape[1]
    # Dividing by a temperature keeps the order, so top-k may come first.
    if 0 < config.top_k < vocab_size:
        ids = _find_best(logits, config.top_k)  # [n, k], best first
        weights = _weigh(np.take_along_axis(logits, ids, axis=1), config)
        if config.top_p < 1:
            weights = _keep_top_p(weights, config.top_p * _add_up(weights))
    elif config.top_p < 1:
        ids, weights = _keep_top_p_of_all(logits, config)
    else:
        ids = np.broadcast_to(np.arange(vocab_size), logits.shape)
        weights = _weigh(logits, config)
    if config.min_p > 0:
        limit = config.min_p * weights.max(axis=1, keepdims=True)
        weights = np.where(weights >= limit, weights, 0)
    return Candidates(ids, weights)


def _weigh(scores: Logits, config: SamplingConfig) -> Weights:
    """Return weights in proportion to the softmax of [n, C] scores that include the best: 1."""
    best = scores.max(axis=1, keepdims=True)
    # float64: different scores stay different. In place: fresh memory costs more than the numbers.
    weights: Weights = np.subtract(scores, best, dtype=np.float64)
    weights /= config.temperature
    return np.exp(weights, out=weights)


def _find_best(logits: Logits, k: int) -> NDArray[np.int64]:
    """Return the ids of the k best of each row, best first, ties to the lower id: [n, k]."""
    floors = _find_floors(logits, k)
    ids = np.empty((len(logits), k), np.int64)
    for row, floor in enumerate(floors):
        reaching = np.flatnonzero(logits[row] >= floor)  # k ids, or some more
        order = np.argsort(-logits[row, reaching], kind="stable")[:k]
        ids[row] = reaching[order]
    return ids


def _find_floors(logits: Logits, k: int) -> Logits:
    """Return for each row a score that at least k logits reach, and seldom many more: [n].

    It is the k-th best of the maxima of groups: to find the k-th best of all takes ten times as
    long, and 3 ms a row for a vocabulary of 50,257 was a tenth of a decode step of 32 rows.
    """
    rows, vocab_size = logits.shape
    size = max(1, vocab_size // max(_FEWEST_GROUPS, 4 * k))
    groups = vocab_size // size
    # A group is spread over the row, so that the maximum is taken of whole stretches at once.
    maxima = logits[:, : size * groups].reshape(rows, size, groups).max(axis=1)  # [n, groups]
    return np.partition(maxima, groups - k, axis=1)[:, groups - k]


def _keep_top_p_of_all(logits: Logits, config: SamplingConfig) -> tuple[NDArray[np.int64], Weights]:
    """Apply top-p to the whole vocabulary, sorting only as many of the best as it can keep."""
    vocab_size = logits.shape[1]
    limits = config.top_p * _add_up(_weigh(logits, config))  # [n, 1]
    count = min(_FIRST_NUCLEUS, vocab_size)
    while True:
        ids = _find_best(logits, count)
        weights = _weigh(np.take_along_axis(logits, ids, axis=1), config)
        if count == vocab_size or (_add_up(weights) >= limits).all():
            return ids, _keep_top_p(weights, limits)
        count = min(4 * count, vocab_size)


def _keep_top_p(weights: Weights, limits: Weights) -> Weights:
    """Keep the fewest best candidates that add up to the row's limit; rows are best first."""
    mass = np.cumsum(weights, axis=1)
    before = np.zeros_like(mass)
    before[:, 1:] = mass[:, :-1]
    kept = before < limits
    kept[:, 0] = True  # top-p 0 keeps the best one
    return np.where(kept, weights, 0)


def _add_up(weights: Weights) -> Weights:
    """Return the sum of each row of [n, C] weights, added from left to right: [n, 1]."""
    return np.cumsum(weights, axis=1)[:, -1:]


def draw(candidates: Candidates, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return one id per row by inverting the cumulative weights at `uniforms` [n] in [0, 1)."""
    mass = np.cumsum(candidates.weights, axis=1)
    targets = uniforms * mass[:, -1]
    places = (mass <= targets[:, None]).sum(axis=1)
    # Rounding may carry a target to the very end: take the last candidate that has any weight.
    last = candidates.weights.shape[1] - 1 - (candidates.weights[:, ::-1] > 0).argmax(axis=1)
    chosen = np.minimum(places, last)
    return np.take_along_axis(candidates.ids, chosen[:, None], axis=1)[:, 0]
