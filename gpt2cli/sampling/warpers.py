"""Logits warpers: they reshape the distribution, in Hugging Face's order and definitions.

temperature → top-k → top-p → min-p. One difference: top-k keeps exactly k, ties to the lower id.
All rows are warped at once. Probabilities are float64 and stay unnormalised; sums run from left to
right (`cumsum`), so a row's result does not depend on its neighbours.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt2cli.sampling.config import SamplingConfig

Logits = NDArray[np.float32]
Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be drawn in each row: ids, and weights in proportion to their probabilities."""

    ids: NDArray[np.int64]  # [n, C]
    weights: Weights  # [n, C], 0 where a warper removed the id


def warp(logits: Logits, config: SamplingConfig) -> Candidates:
    """Return the candidates of each row of [n, V] logits, which hold no NaN."""
    ids, scores = _keep_top_k(logits, config)  # [n, C]
    # Dividing by a temperature keeps the order, so top-k may come first; float64 keeps it strict.
    scaled = (scores.astype(np.float64) - scores.max(axis=1, keepdims=True)) / config.temperature
    weights = np.exp(scaled)
    if config.top_p < 1:
        weights = _keep_top_p(weights, config.top_p)
    if config.min_p > 0:
        limit = config.min_p * weights.max(axis=1, keepdims=True)
        weights = np.where(weights >= limit, weights, 0)
    return Candidates(ids, weights)


def _keep_top_k(logits: Logits, config: SamplingConfig) -> tuple[NDArray[np.int64], Logits]:
    """Return ids and scores of the k best of each row, best first; ties to the lower id.

    With top-k off all ids are returned: sorted if top-p asks for an order, as they are if not.
    """
    rows, vocab_size = logits.shape
    if 0 < config.top_k < vocab_size:
        return _sort_best(logits, config.top_k)
    if config.top_p < 1:
        order = np.argsort(-logits, axis=1, kind="stable")
        return order, np.take_along_axis(logits, order, axis=1)
    return np.broadcast_to(np.arange(vocab_size), (rows, vocab_size)), logits


def _sort_best(logits: Logits, k: int) -> tuple[NDArray[np.int64], Logits]:
    rows, vocab_size = logits.shape
    kth = np.partition(logits, vocab_size - k, axis=1)[:, vocab_size - k]  # k-th best score [n]
    ids = np.empty((rows, k), np.int64)
    for row in range(rows):
        reaching = np.flatnonzero(logits[row] >= kth[row])  # k ids, or more if some tie
        order = np.argsort(-logits[row, reaching], kind="stable")[:k]
        ids[row] = reaching[order]
    return ids, np.take_along_axis(logits, ids, axis=1)


def _keep_top_p(weights: Weights, top_p: float) -> Weights:
    """Keep the fewest best candidates whose share reaches top-p; rows are sorted best first."""
    mass = np.cumsum(weights, axis=1)
    before = np.zeros_like(mass)
    before[:, 1:] = mass[:, :-1]
    kept = before < top_p * mass[:, -1:]
    kept[:, 0] = True  # top-p 0 keeps the best one
    return np.where(kept, weights, 0)


def draw(candidates: Candidates, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return one id per row by inverting the cumulative weights at `uniforms` [n] in [0, 1)."""
    mass = np.cumsum(candidates.weights, axis=1)
    targets = uniforms * mass[:, -1]
    places = (mass <= targets[:, None]).sum(axis=1)
    # Rounding may carry a target to the very end: take the last candidate that has any weight.
    last = candidates.weights.shape[1] - 1 - (candidates.weights[:, ::-1] > 0).argmax(axis=1)
    chosen = np.minimum(places, last)
    return np.take_along_axis(candidates.ids, chosen[:, None], axis=1)[:, 0]
