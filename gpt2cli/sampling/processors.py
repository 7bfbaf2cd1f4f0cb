"""Logits processors: they may change which token is most likely, and see the row's history."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Places = NDArray[np.int64] | NDArray[np.bool_]  # some ids, or a mask over all: [V]

_FINITE: Final = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def forbid(logits: Logits, *places: Places) -> Logits:
    """Return [V] logits with the ids at all `places` at minus infinity."""
    changed = logits.copy()
    for some in places:
        changed[some] = -np.inf
    return changed


def add_bias(logits: Logits, ids: NDArray[np.int64], biases: NDArray[np.float32]) -> Logits:
    """Return [V] logits with a bias added to each of `ids`, all different.

    Hugging Face's SequenceBiasLogitsProcessor for sequences of one token.
    """
    changed = logits.copy()
    changed[ids] += biases
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


def penalise_occurrences(
    logits: Logits, counts: Mapping[int, int], *, frequency: float, presence: float
) -> Logits:
    """Return [V] logits less `frequency` times an id's count, and less `presence` if it has one.

    vLLM's definition (apply_penalties in vllm/model_executor/layers/utils.py), after OpenAI's.
    """
    changed = logits.copy()
    places = np.fromiter(counts.keys(), np.int64, len(counts))
    times = np.fromiter(counts.values(), np.float64, len(counts))
    changed[places] = logits[places] - (frequency * times + presence)
    return changed
