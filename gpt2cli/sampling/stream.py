"""The random stream of one sample: a counter-based generator, so that nothing else can move it."""

from typing import Final

import numpy as np

_MANTISSA_BITS: Final = 53


class RandomStream:
    """Uniform numbers keyed by (seed, sample) and counted by step, nothing else.

    Raw words of Philox4x64-10 (Salmon et al. 2011, doi:10.1145/2063384.2063405): numpy promises
    to keep them, unlike its distribution methods.
    """

    def __init__(self, seed: int, sample: int) -> None:
        """Key the stream by `seed` (0 … 2^53−1) and the number of the sample."""
        self._key = np.array([seed, sample], np.uint64)

    def uniform(self, step: int) -> float:
        """Return the number of this step, in [0, 1) in steps of 2^-53."""
        word = int(np.random.Philox(key=self._key, counter=step).random_raw())
        return float((word >> (64 - _MANTISSA_BITS)) * 2.0**-_MANTISSA_BITS)
