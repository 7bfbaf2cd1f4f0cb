"""Random numbers are those of Philox4x64-10, and draws by them follow the distributions."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from gpt2cli.config import LARGEST_SEED, SamplingConfig
from gpt2cli.sampling.random import seed_of, uniform
from gpt2cli.sampling.warpers import Candidates, draw, warp


@pytest.mark.parametrize(
    ("counter", "key", "word", "second"),
    [
        (0, (0, 0), 0x16554D9ECA36314C, 0xDB20FE9D672D0FDC),
        (2**256 - 1, (2**64 - 1, 2**64 - 1), 0x87B092C3013FE90B, 0x438C3C67BE8D0224),
        (
            0x082EFA98EC4E6C89A4093822299F31D013198A2E03707344243F6A8885A308D3,
            (0x452821E638D01377, 0xBE5466CF34E90C6C),
            0xA528F45403E61D95,
            0x38C72DBD566E9788,
        ),
    ],
)
def test_a_number_is_the_philox_word_of_seed_sample_and_step(
    counter: int, key: tuple[int, int], word: int, second: int
) -> None:
    """Known answers of the authors' Random123 (tests/kat_vectors, philox4x64 10).

    The key is (seed, sample), the counter step + 1 (numpy counts before it computes); of the first
    word, and of the second for XTC, the upper 53 bits are taken.
    """
    assert uniform(*key, (counter - 1) % 2**256) == (word >> 11) / 2**53
    assert uniform(*key, (counter - 1) % 2**256, 1) == (second >> 11) / 2**53


def test_the_seed_of_a_request_is_the_runs_seed_plus_its_index() -> None:
    """So that the run's seed alone names the first; after 2^53−1 comes 0."""
    assert [seed_of(7, index) for index in (0, 1, 5)] == [7, 8, 12]
    assert [seed_of(LARGEST_SEED, index) for index in (0, 1, 2)] == [LARGEST_SEED, 0, 1]


# Draws

_DRAWS: Final = 5_000
_SHARES: Final = (0.4, 0.25, 0.15, 0.1, 0.07, 0.03)
# Of all warpers at once, by hand: of the squares top-k drops 0.0009, top-p 0.0049 and min-p 0.01;
# 0.91 of the rest is in the first two, with surprises of 0.43 and 1.37 near the entropy of 0.85;
# the third's is 2.39.
_ALL: Final = {"temperature": 0.5, "top_k": 5, "top_p": 0.95, "min_p": 0.1, "typical_p": 0.9}
_LEFT: Final = (0.16, 0.0625, 0, 0, 0, 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("options", "weights", "limit"),
    [({}, _SHARES, 25.74), (_ALL, _LEFT, 15.14)],  # of chi-squared: every table has it
)
def test_draws_follow_the_distribution(
    options: dict[str, Any], weights: Sequence[float], limit: float, seed: int
) -> None:
    """What was removed never comes, the rest as often as it should, p > 1e-4."""
    config = SamplingConfig(**({"top_k": 0} | options))
    candidates = warp(np.log(np.array([_SHARES])).astype(np.float32), config)
    repeated = Candidates(
        None if candidates.ids is None else np.broadcast_to(candidates.ids, (_DRAWS, config.top_k)),
        np.broadcast_to(candidates.weights, (_DRAWS, candidates.weights.shape[1])),
    )
    numbers = np.array([uniform(seed, 0, step) for step in range(_DRAWS)])
    counts = np.bincount(draw(repeated, numbers), minlength=len(_SHARES))
    expected = np.array(weights) * (_DRAWS / sum(weights))
    possible = expected > 0
    assert not counts[~possible].any()
    assert ((counts - expected)[possible] ** 2 / expected[possible]).sum() < limit
