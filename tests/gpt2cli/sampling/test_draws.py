"""Draws follow the distribution that each warper leaves: chi-squared over 100,000 of them."""

import math
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling import RandomStream
from gpt2cli.sampling.warpers import Candidates, draw, warp

_DRAWS: Final = 100_000
_SHARES: Final = (0.4, 0.25, 0.15, 0.1, 0.07, 0.03)
_LEAST_P: Final = 1e-4

# A warper -> what it makes of the shares, by hand. For typical-p: the entropy is 1.51, and the
# surprises are 0.92, 1.39, 1.90, 2.30, 2.66 and 3.51, so 0.25 is the most typical and 0.15 the
# next. Of all at once: of the squares top-k drops 0.0009, top-p 0.0049 and min-p 0.01; 0.91 of the
# rest is in the first two, with surprises of 0.43 and 1.37 near the entropy of 0.85; the third's is
# 2.39.
_WARPERS: Final[dict[str, tuple[dict[str, float], tuple[float, ...]]]] = {
    "none": ({}, _SHARES),
    "temperature": ({"temperature": 0.5}, (0.16, 0.0625, 0.0225, 0.01, 0.0049, 0.0009)),
    "top-k": ({"top_k": 4}, (0.4, 0.25, 0.15, 0.1, 0, 0)),
    "top-p": ({"top_p": 0.7}, (0.4, 0.25, 0.15, 0, 0, 0)),
    "min-p": ({"min_p": 0.2}, (0.4, 0.25, 0.15, 0.1, 0, 0)),
    "typical-p": ({"typical_p": 0.3}, (0, 0.25, 0.15, 0, 0, 0)),
    "all": (
        {"temperature": 0.5, "top_k": 5, "top_p": 0.95, "min_p": 0.1, "typical_p": 0.9},
        (0.16, 0.0625, 0, 0, 0, 0),
    ),
}


def find_p(statistic: float, degrees: int) -> float:
    """Return the share of the chi-squared distribution above `statistic`.

    The closed forms of Abramowitz and Stegun 26.4.4 (odd) and 26.4.5 (even).
    """
    half = statistic / 2
    powers = np.arange(degrees % 2 / 2, degrees / 2)  # 0, 1, … or 1/2, 3/2, …
    terms = math.fsum(half**power / math.gamma(power + 1) for power in powers)
    return (math.erfc(math.sqrt(half)) if degrees % 2 else 0) + math.exp(-half) * terms


def uniforms(seed: int) -> NDArray[np.float64]:
    """Return the random numbers of the steps of one sample, as RandomStream gives them."""
    words = np.random.Philox(key=np.array([seed, 0], np.uint64)).random_raw(4 * _DRAWS)
    words = words[::4] >> np.uint64(11)  # a step takes the first of four
    return words.astype(np.float64) * 2.0**-53


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("warper", _WARPERS)
def test_draws_follow_the_distribution(warper: str, seed: int) -> None:
    """Six tokens: what was removed never comes, the rest as often as it should, p > 1e-4."""
    options, weights = _WARPERS[warper]
    config = SamplingConfig(**({"top_k": 0} | options))  # type: ignore[arg-type]
    candidates = warp(np.log(np.array([_SHARES])).astype(np.float32), config)
    repeated = Candidates(
        None if candidates.ids is None else np.broadcast_to(candidates.ids, (_DRAWS, config.top_k)),
        np.broadcast_to(candidates.weights, (_DRAWS, candidates.weights.shape[1])),
    )
    counts = np.bincount(draw(repeated, uniforms(seed)), minlength=len(_SHARES))
    expected = np.array(weights) * (_DRAWS / sum(weights))
    possible = expected > 0
    assert not counts[~possible].any()
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert find_p(float(statistic), int(possible.sum()) - 1) > _LEAST_P


@pytest.mark.parametrize(
    ("statistic", "degrees", "p"),
    [(10.828, 1, 0.001), (9.210, 2, 0.01), (7.815, 3, 0.05), (13.277, 4, 0.01), (20.515, 5, 0.001)],
)
def test_p_values_are_those_of_the_tables(statistic: float, degrees: int, p: float) -> None:
    """Critical values as every table has them (NIST/SEMATECH e-Handbook 1.3.6.7.4)."""
    assert find_p(statistic, degrees) == pytest.approx(p, rel=1e-3)


@pytest.mark.parametrize("step", [0, 1, 99_999])
def test_the_numbers_here_are_those_of_the_stream(step: int) -> None:
    """Computed all at once."""
    assert uniforms(9)[step] == RandomStream(9, 0).uniform(step)
