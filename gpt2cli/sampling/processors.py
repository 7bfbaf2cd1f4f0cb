"""Logits processors: they may change which token is most likely, and see the sequence's history.

They come in Hugging Face's order: logit bias → repetition penalty → frequency and presence penalty,
which are vLLM's and follow there too → llama.cpp's DRY → the masks of what may not be drawn, in any
order → what a prompt that is healed begins with.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.history import History, LogitsMask

Logits = NDArray[np.float32]

_FINITE: Final = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def process(logits: Logits, history: History) -> Logits:
    """Apply the processors to [V] logits; returns them themselves where none is on.

    Raises:
        PromptError: if a constraint cannot be followed any further.
    """
    config = history.config
    if history.biases is not None:
        logits = add_bias(logits, *history.biases)
    if config.repetition_penalty != 1:
        logits = penalise_repetition(logits, tuple(history.seen), config.repetition_penalty)
    if config.frequency_penalty or config.presence_penalty:
        logits = penalise_occurrences(
            logits,
            history.counts,
            frequency=config.frequency_penalty,
            presence=config.presence_penalty,
        )
    if history.breakers is not None:
        logits = penalise_repeats(logits, history.find_repeats(), history.breakers.ids, config)
    masks = history.find_masks()
    logits = apply_masks(logits, *masks) if masks else logits
    return logits if history.healing is None else history.healing.process(logits)


def apply_masks(logits: Logits, *masks: LogitsMask) -> Logits:
    """Return [V] logits with minus infinity for what is masked."""
    changed = logits.copy()
    for mask in masks:
        changed[mask] = -np.inf
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
    ids = np.array(seen, np.int64)
    scores = logits[ids].astype(np.float64)
    with np.errstate(over="ignore"):
        penalised = np.where(scores < 0, scores * penalty, scores / penalty)
    # However extreme the penalty, what was finite stays so; what is masked stays masked.
    changed[ids] = np.where(np.isfinite(scores), np.clip(penalised, *_FINITE), scores)
    return changed


def penalise_occurrences(
    logits: Logits, counts: Mapping[int, int], *, frequency: float, presence: float
) -> Logits:
    """Return [V] logits less `frequency` times an id's count, and less `presence` if it has one.

    vLLM's definition (apply_penalties in vllm/model_executor/layers/utils.py), after OpenAI's.
    """
    changed = logits.copy()
    ids = np.fromiter(counts.keys(), np.int64, len(counts))
    times = np.fromiter(counts.values(), np.float64, len(counts))
    changed[ids] = logits[ids] - (frequency * times + presence)
    return changed


def penalise_repeats(
    logits: Logits, lengths: Mapping[int, int], exempt: NDArray[np.int64], config: SamplingConfig
) -> Logits:
    """Return [V] logits less DRY's penalty for each id that goes on with a repetition.

    `lengths`: of the repetitions; `exempt`: ids that have no penalty.
    """
    changed = logits.copy()
    ids = np.fromiter(lengths.keys(), np.int64, len(lengths))
    excess = np.fromiter(lengths.values(), np.float64, len(lengths)) - config.dry_allowed_length
    # However long the repetition, what was finite stays so; what is masked stays masked.
    with np.errstate(over="ignore"):
        scores = logits[ids] - np.minimum(
            config.dry_multiplier * config.dry_base**excess, _FINITE[1]
        )
    penalised = np.isfinite(logits[ids]) & ~np.isin(ids, exempt)
    changed[ids] = np.where(penalised, np.maximum(scores, _FINITE[0]), logits[ids])
    return changed
