"""Logits processors: they may change which token is most likely, and see the row's history."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]

_FINITE: Final = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


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
    scores = logits[places].astype(np.float64)
    with np.errstate(over="ignore"):
        penalised = np.where(scores < 0, scores * penalty, scores / penalty)
    # However extreme the penalty, what was finite stays so; what is forbidden stays forbidden.
    changed[places] = np.where(np.isfinite(scores), np.clip(penalised, *_FINITE), scores)
    return changed
