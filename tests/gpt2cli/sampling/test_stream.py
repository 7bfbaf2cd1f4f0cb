"""The random stream against Philox4x64-10 written here from the paper's section 3.3."""

import pytest

from gpt2cli.config import LARGEST_SEED
from gpt2cli.sampling import RandomStream

_WORD = 2**64
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """Return the four words of Philox4x64 with ten rounds."""
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
    assert RandomStream(seed, sample).uniform(step) == (word >> 11) / 2**53


def test_numbers_depend_on_the_step_alone() -> None:
    """Asked in any order, and again, each step has its number."""
    stream = RandomStream(7, 0)
    forwards = [stream.uniform(step) for step in range(4)]
    assert [stream.uniform(step) for step in (3, 2, 1, 0)] == forwards[::-1]


def test_numbers_lie_in_zero_to_one() -> None:
    """0 ≤ u < 1, and they spread: the mean of 1,000 is near one half."""
    stream = RandomStream(3, 1)
    numbers = [stream.uniform(step) for step in range(1000)]
    assert min(numbers) >= 0 and max(numbers) < 1
    assert abs(sum(numbers) / 1000 - 0.5) < 0.05


def test_seeds_samples_and_steps_do_not_share_numbers() -> None:
    """Neighbours in each of the three differ: 27 different numbers."""
    numbers = {
        RandomStream(seed, sample).uniform(step)
        for seed in range(3)
        for sample in range(3)
        for step in range(3)
    }
    assert len(numbers) == 27
