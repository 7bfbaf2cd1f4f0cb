"""Seeds, and the random numbers that they stand for."""

import secrets
from typing import Final

import numpy as np

from gpt2cli.config import LARGEST_SEED

_RANDOM_SEEDS: Final = 2**32  # enough, and short enough to type again
_MANTISSA_BITS: Final = 53


def draw_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(_RANDOM_SEEDS)


def seed_of(run_seed: int, index: int) -> int:
    """Return the effective seed of the request at `index` that names none itself."""
    return (run_seed + index) % (LARGEST_SEED + 1)


def uniform(seed: int, sample: int, step: int, number: int = 0) -> float:
    """Return a number of a step, in [0, 1) in steps of 2^-53; nothing else moves it.

    `seed`: 0 … 2^53−1; `number`: 0 … 3, which word of the step's block. Raw words of Philox4x64-10
    (Salmon et al. 2011, doi:10.1145/2063384.2063405): numpy promises to keep them, unlike its
    distribution methods.
    """
    # By a counter instead of a state: a step that is made again, in a resumed run or after a draft,
    # has the same number, and one sample's draws cannot shift another's.
    key = np.array([seed, sample], np.uint64)
    words = np.random.Philox(key=key, counter=step).random_raw(number + 1)
    word = int(words[number])
    return float((word >> (64 - _MANTISSA_BITS)) * 2.0**-_MANTISSA_BITS)
