"""Random numbers are those of Philox4x64-10, and draws by them follow the distributions."""

import itertools
import math
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import LARGEST_SEED, SamplingConfig
from gpt2cli.sampling.random import seed_of, uniform
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
    """Return the random numbers of the steps of one sample."""
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


_WORD = 2**64
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """Return the four words of Philox4x64 with ten rounds: the paper's section 3.3."""
    words = [counter >> shift & (_WORD - 1) for shift in (0, 64, 128, 192)]
    for number in range(10):
        round_key = [(k + number * w) % _WORD for k, w in zip(key, _WEYL, strict=True)]
        high0, low0 = divmod(_MULTIPLIERS[0] * words[0], _WORD)
        high1, low1 = divmod(_MULTIPLIERS[1] * words[2], _WORD)
        words = [high1 ^ words[1] ^ round_key[0], low1, high0 ^ words[3] ^ round_key[1], low0]
    return words


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        (
            0,
            (0, 0),
            [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B],
        ),
        (
            2**256 - 1,
            (_WORD - 1, _WORD - 1),
            [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
        ),
    ],
)
def test_the_oracle_gives_the_published_words(
    counter: int, key: tuple[int, int], expected: list[int]
) -> None:
    """Known answers of the authors' Random123 (tests/kat_vectors, philox4x64 10)."""
    assert philox(counter, key) == expected


@pytest.mark.parametrize("seed", [0, 1, LARGEST_SEED])
@pytest.mark.parametrize("sample", [0, 1, 12345])
@pytest.mark.parametrize("step", [0, 1, 1023])
def test_a_number_is_the_philox_word_of_seed_sample_and_step(
    seed: int, sample: int, step: int
) -> None:
    """Key (seed, sample), counter step + 1 (numpy counts before it computes), upper 53 bits."""
    word = philox(step + 1, (seed, sample))[0]
    assert uniform(seed, sample, step) == (word >> 11) / 2**53


@pytest.mark.parametrize("step", [0, 1, 99_999])
def test_the_numbers_of_the_draws_are_those_of_the_steps(step: int) -> None:
    """Above they are computed all at once."""
    assert uniforms(9)[step] == uniform(9, 0, step)


def test_seeds_samples_and_steps_do_not_share_numbers() -> None:
    """Neighbours in each of the three differ."""
    keys = itertools.product(range(3), repeat=3)
    assert len({uniform(seed, sample, step) for seed, sample, step in keys}) == 27


def test_the_seed_of_a_request_is_the_runs_seed_plus_its_index() -> None:
    """So that the run's seed alone names the first; after 2^53−1 comes 0."""
    assert [seed_of(7, index) for index in (0, 1, 5)] == [7, 8, 12]
    assert [seed_of(LARGEST_SEED, index) for index in (0, 1, 2)] == [LARGEST_SEED, 0, 1]
