"""Random numbers are those of Philox4x64-10, and draws by them follow the distributions."""

import itertools
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import LARGEST_SEED, SamplingConfig
from gpt2cli.sampling.random import seed_of, uniform
from gpt2cli.sampling.warpers import Candidates, draw, warp


@pytest.mark.parametrize(
    ("counter", "key", "word"),
    [
        (0, (0, 0), 0x16554D9ECA36314C),
        (2**256 - 1, (2**64 - 1, 2**64 - 1), 0x87B092C3013FE90B),
        (
            0x082EFA98EC4E6C89A4093822299F31D013198A2E03707344243F6A8885A308D3,
            (0x452821E638D01377, 0xBE5466CF34E90C6C),
            0xA528F45403E61D95,
        ),
    ],
)
def test_a_number_is_the_philox_word_of_seed_sample_and_step(
    counter: int, key: tuple[int, int], word: int
) -> None:
    """Known answers of the authors' Random123 (tests/kat_vectors, philox4x64 10).

    The key is (seed, sample), the counter step + 1 (numpy counts before it computes); of the first
    word the upper 53 bits are taken.
    """
    assert uniform(*key, (counter - 1) % 2**256) == (word >> 11) / 2**53


def test_seeds_samples_and_steps_do_not_share_numbers() -> None:
    """Neighbours in each of the three differ; the largest seed has one as well."""
    keys = [*itertools.product(range(3), repeat=3), (LARGEST_SEED, 0, 0)]
    numbers = {uniform(*key) for key in keys}
    assert len(numbers) == 28
    assert 0 <= min(numbers) <= max(numbers) < 1


def test_the_seed_of_a_request_is_the_runs_seed_plus_its_index() -> None:
    """So that the run's seed alone names the first; after 2^53−1 comes 0."""
    assert [seed_of(7, index) for index in (0, 1, 5)] == [7, 8, 12]
    assert [seed_of(LARGEST_SEED, index) for index in (0, 1, 2)] == [LARGEST_SEED, 0, 1]


# Draws

_DRAWS: Final = 100_000
_SHARES: Final = (0.4, 0.25, 0.15, 0.1, 0.07, 0.03)
# What chi-squared exceeds with p = 1e-4, by degrees of freedom (every table has it).
_LIMITS: Final = {1: 15.14, 2: 18.42, 3: 21.11, 4: 23.51, 5: 25.74}

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


def uniforms(seed: int) -> NDArray[np.float64]:
    """Return the random numbers of the steps of one sample, computed all at once."""
    words = np.random.Philox(key=np.array([seed, 0], np.uint64)).random_raw(4 * _DRAWS)
    words = words[::4] >> np.uint64(11)  # a step takes the first of four
    return words.astype(np.float64) * 2.0**-53


@pytest.mark.parametrize("step", [0, 1, 99_999])
def test_the_numbers_of_the_draws_are_those_of_the_steps(step: int) -> None:
    """For the next test."""
    assert uniforms(9)[step] == uniform(9, 0, step)


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
    assert statistic < _LIMITS[int(possible.sum()) - 1]
