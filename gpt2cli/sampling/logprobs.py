"""Computes log-probabilities in the model's own distribution: before processors and warpers.

Every id of the vocabulary counts as the model gave it, also one that no text belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import ModelError
from gpt2cli.sampling.warpers import find_best

BAD_LOGITS: Final = (
    "the model computed logits that are NaN or infinite: its weights are bad; "
    "`gpt2 doctor --verify` finds a damaged export"
)

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have stood there."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token, its natural log-probability, and the likeliest tokens in its stead.

    Best first, ties to the lower id; the token itself is among them if it is one of those. There is
    no logprob where nothing stands before the token.
    """

    token_id: int
    logprob: float | None
    alternatives: tuple[Alternative, ...] = ()


def find_logprobs(logits: Logits, token_ids: Sequence[int], top: int) -> list[TokenLogprob]:
    """Return the log-probability of one id per row of [n, V] logits, with `top` alternatives.

    Raises:
        ModelError: if the logits hold NaN or infinities.
    """
    logsumexps = find_logsumexps(logits)  # [n]
    logprobs = logits[np.arange(len(logits)), token_ids] - logsumexps
    top = min(top, logits.shape[1])
    ids = find_best(logits, top) if top else np.empty((len(logits), 0), np.int64)
    values = np.take_along_axis(logits, ids, axis=1) - logsumexps[:, None]  # [n, top]
    return [
        TokenLogprob(
            token_id,
            float(logprobs[i]),
            tuple(map(Alternative, ids[i].tolist(), values[i].tolist())),
        )
        for i, token_id in enumerate(token_ids)
    ]


def find_logsumexps(logits: Logits) -> NDArray[np.float64]:
    """Return the logarithm of the sum of exp of each row of [n, V] logits: [n].

    Raises:
        ModelError: if there is none, since the logits hold NaN or infinities.
    """
    best = logits.max(axis=1)
    if not np.isfinite(best).all():
        raise ModelError(BAD_LOGITS)
    shifted = np.subtract(logits, best[:, None], dtype=np.float64)
    # In place: fresh memory costs more than the numbers.
    sums = np.exp(shifted, out=shifted).sum(axis=1)
    return np.log(sums) + best
