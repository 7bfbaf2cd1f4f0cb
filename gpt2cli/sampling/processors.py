"""Logits processors: they may change which token is most likely, and see the row's history."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


def forbid(logits: Logits, ids: NDArray[np.int64]) -> Logits:
    """Return [V] logits with `ids` at minus infinity."""
    changed = logits.copy()
    changed[ids] = -np.inf
    return changed


def penalise_repetition(logits: Logits, seen: Sequence[int], penalty: float) -> Logits:
    """Return [V] logits in which each id of `seen` is less likely (more, for a penalty below 1).

    A positive logit is divided by the penalty, a negative one multiplied: Keskar et al. 2019,
    arXiv:1909.05858, section 4.1, with the sign of Hugging Face's RepetitionPenaltyLogitsProcessor.
    """
    changed = logits.copy()
    places = np.array(seen, np.int64)
    scores = logits[places]
    factor = np.float32(penalty)
    changed[places] = np.where(scores < 0, scores * factor, scores / factor)
    return changed
