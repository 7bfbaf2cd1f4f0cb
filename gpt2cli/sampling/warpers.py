"""Logits warpers: they reshape the distribution, in Hugging Face's order and definitions.

top-n-sigma → temperature → top-k → top-p → min-p → typical-p → XTC; the first and the last are
llama.cpp's. One difference: top-k keeps exactly k, ties to the lower id.
Probabilities are float64 and stay unnormalised; sums run from left to right (`cumsum`), so that a
row's result does not depend on its neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig

Logits = NDArray[np.float32]
Weights = NDArray[np.float64]

_FEWEST_GROUPS: Final = 1024
_BUCKETS: Final = 1024


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be drawn in each row: ids, and weights in proportion to their probabilities."""

    ids: NDArray[np.int64] | None  # [n, C]; None: all of them in order
    weights: Weights  # [n, C], 0 where a warper removed the id


def warp(logits: Logits, config: SamplingConfig, rolls: Sequence[float] = ()) -> Candidates:
    """Return the candidates of each row of [n, V] logits, which hold no NaN.

    `rolls`: a random number in [0, 1) for each row, with XTC.
    """
    if config.top_n_sigma:
        logits = np.stack([_keep_top_n_sigma(row, config.top_n_sigma) for row in logits])
    vocab_size = logits.shape[1]
    ids, scores = None, logits
    # Dividing by a temperature keeps the order, so top-k may come first.
    if 0 < config.top_k < vocab_size:
        ids = find_best(logits, config.top_k)  # [n, k], best first
        scores = np.take_along_axis(logits, ids, axis=1)
    candidates = Candidates(ids, _weigh(scores, config.temperature))
    for option, off, warper in _WARPERS:
        value = getattr(config, option)
        if value != off:
            candidates = Candidates(ids, warper(candidates, value))
    if config.xtc_probability:
        rows = zip(candidates.weights, rolls, strict=True)
        excluding = [
            _exclude_top(weights, config.xtc_threshold)
            if roll < config.xtc_probability
            else weights
            for weights, roll in rows
        ]
        candidates = Candidates(ids, np.stack(excluding))
    return candidates


def find_warping(config: SamplingConfig) -> Sequence[float]:
    """Return what the warpers go by: rows that agree in it are warped and drawn together."""
    options = ("temperature", "top_k", *(option for option, _, _ in _WARPERS), *_OF_LLAMA_CPP)
    return tuple(getattr(config, option) for option in options)


def _weigh(scores: Logits, temperature: float) -> Weights:
    """Return weights in proportion to the softmax of [n, C] scores that include the best: 1."""
    best = scores.max(axis=1, keepdims=True)
    # float64: different scores stay different. In place: fresh memory costs more than the numbers.
    weights: Weights = np.subtract(scores, best, dtype=np.float64)
    weights /= temperature
    return np.exp(weights, out=weights)


def find_best(logits: Logits, k: int) -> NDArray[np.int64]:
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

    It is the k-th best of the maxima of groups: to find the k-th best of all takes seven times as
    long, 11 ms for 32 rows of 50,257, a tenth of a decode step.
    """
    rows, vocab_size = logits.shape
    size = max(1, vocab_size // max(_FEWEST_GROUPS, 4 * k))
    groups = vocab_size // size
    # A group is spread over the row, so that the maximum is taken of whole stretches at once.
    maxima = logits[:, : size * groups].reshape(rows, size, groups).max(axis=1)  # [n, groups]
    return np.partition(maxima, groups - k, axis=1)[:, groups - k]


def _keep_top_p(candidates: Candidates, top_p: float) -> Weights:
    """Keep the fewest best candidates whose share reaches top-p; of equals the lower ids."""
    if candidates.ids is None:
        return np.stack([_keep_top_p_of_all(row, top_p) for row in candidates.weights])
    weights = candidates.weights  # best first
    mass = np.cumsum(weights, axis=1)
    kept = np.ones(weights.shape, bool)  # top-p 0 keeps the best one
    kept[:, 1:] = mass[:, :-1] < top_p * mass[:, -1:]
    return np.where(kept, weights, 0)


def _keep_top_p_of_all(weights: Weights, top_p: float) -> Weights:
    """Do so with the [V] weights of all ids, in their order.

    Weights are sorted without ids, and only those that matter: to sort all ids takes 6 ms.
    """
    total = np.cumsum(weights)[-1]
    # The ids below this have less than the share 1 - top-p all together: no top-p reaches them.
    negligible = 0.5 * (1 - top_p) * total / len(weights)
    best_first = -np.sort(-weights[weights >= negligible])
    count = 1 + int((np.cumsum(best_first)[:-1] < top_p * total).sum())
    floor = best_first[count - 1]
    kept = np.where(weights >= floor, weights, 0)
    excess = int((best_first >= floor).sum()) - count
    if excess:
        kept[np.flatnonzero(weights == floor)[-excess:]] = 0
    return kept


def _keep_min_p(candidates: Candidates, min_p: float) -> Weights:
    """Keep what has at least this share of the best one's probability."""
    weights = candidates.weights
    return np.where(weights >= min_p * weights.max(axis=1, keepdims=True), weights, 0)


def _keep_typical(candidates: Candidates, typical_p: float) -> Weights:
    """Keep what is typical in each row."""
    return np.stack([_keep_typical_of_row(row, typical_p) for row in candidates.weights])


def _keep_typical_of_row(weights: Weights, typical_p: float) -> Weights:
    """Keep of [C] weights the most typical whose share reaches typical-p; equals stay together.

    A token is typical if its surprise, -log p, is near the mean surprise, the entropy: Meister et
    al. 2023, arXiv:2202.00666; Hugging Face's TypicalLogitsWarper.
    """
    kept = np.flatnonzero(weights)  # what the other warpers left
    shares = weights[kept] / np.cumsum(weights[kept])[-1]
    surprises = -np.log(shares)
    distances = np.abs(surprises - np.cumsum(shares * surprises)[-1])
    border = _find_border(distances, shares, typical_p)
    result = np.zeros_like(weights)
    result[kept] = np.where(distances <= border, weights[kept], 0)
    return result


def _find_border(distances: Weights, shares: Weights, wanted: float) -> float:
    """Return the least distance within which the shares add up to `wanted`; [C] each.

    Only the bucket that holds it is sorted: to sort all distances takes four times as long.
    """
    furthest = float(distances.max())
    if furthest == 0:
        return 0.0
    buckets = (distances * ((_BUCKETS - 1) / furthest)).astype(np.int64)
    mass = np.cumsum(np.bincount(buckets, weights=shares, minlength=_BUCKETS))
    bucket = min(int((mass < wanted).sum()), int(buckets.max()))  # all may round to less
    inside = np.flatnonzero(buckets == bucket)
    inside = inside[np.argsort(distances[inside], kind="stable")]
    before = mass[bucket - 1] if bucket else 0.0
    reached = int((before + np.cumsum(shares[inside]) < wanted).sum())
    return float(distances[inside[min(reached, len(inside) - 1)]])


def _keep_top_n_sigma(logits: Logits, n: float) -> Logits:
    """Keep of [V] logits those within n standard deviations of the best one.

    Tang et al. 2024, arXiv:2411.07641; as in llama.cpp the deviation is that of what is not masked.
    """
    best, spread = logits.max(), np.std(logits[np.isfinite(logits)], dtype=np.float64)
    return np.where(logits >= best - n * spread, logits, -np.inf).astype(np.float32)


def _exclude_top(weights: Weights, threshold: float) -> Weights:
    """Keep of the [C] weights whose share reaches the threshold only the least, and all below.

    Of equals the one that comes last stays. llama.cpp's llama_sampler_xtc_apply.
    """
    reaching = (weights > 0) & (weights >= threshold * np.cumsum(weights)[-1])
    top = np.flatnonzero(reaching)
    if len(top) < 2:
        return weights
    least = top[::-1][np.argmin(weights[top[::-1]])]
    reaching[least] = False
    return np.where(reaching, 0, weights)


_OF_LLAMA_CPP: Final = ("top_n_sigma", "xtc_probability", "xtc_threshold")

# In their order, after temperature and top-k: the option, its value that turns the warper off, and
# what returns the weights that it leaves.
_WARPERS: Final[Sequence[tuple[str, float, Callable[[Candidates, float], Weights]]]] = (
    ("top_p", 1, _keep_top_p),
    ("min_p", 0, _keep_min_p),
    ("typical_p", 1, _keep_typical),
)


def draw(candidates: Candidates, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return one id per row by inverting the cumulative weights at `uniforms` [n] in [0, 1)."""
    mass = np.cumsum(candidates.weights, axis=1)
    # Numbers up to 1 - 2^-53 times the sum round to less than the sum: there is always a candidate
    # where the mass first exceeds the target, and since it grows there that one has weight.
    targets = uniforms * mass[:, -1]
    indices: NDArray[np.int64] = (mass <= targets[:, None]).sum(axis=1)
    if candidates.ids is None:
        return indices
    return np.take_along_axis(candidates.ids, indices[:, None], axis=1)[:, 0]
