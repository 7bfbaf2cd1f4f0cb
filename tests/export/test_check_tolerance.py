"""How much graph and oracle may differ: a share of the largest logit, or what float32 loses."""

import pathlib

import numpy as np
import pytest

from export.check import NOISE_FACTORS, TOLERANCE, Expectation
from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckError
from export.reference import Reference
from export.storage import Precision
from export.weights import expected_weights
from tests.array_weights import ArrayWeights
from tests.checkpoints import FloatArray


@pytest.fixture
def config(checkpoint: pathlib.Path) -> GPT2Config:
    """Return the configuration of the smallest checkpoint."""
    return read_config(checkpoint)


@pytest.fixture
def arrays(checkpoint: pathlib.Path, config: GPT2Config) -> dict[str, FloatArray]:
    """Return its weights, in arrays of the test's own."""
    with open_checkpoint(checkpoint) as weights:
        return {name: weights.read(name) for name in expected_weights(config)}


def shift_one(logits: FloatArray, by: float) -> FloatArray:
    """Return logits [V] with the fourth one moved."""
    moved = logits.copy()
    moved[3] += by
    return moved


@pytest.mark.parametrize("sign", [1, -1])
def test_the_tolerance_is_a_share_of_the_largest_logit(
    config: GPT2Config, arrays: dict[str, FloatArray], sign: int
) -> None:
    """A little less passes, a little more does not, up or down."""
    weights = ArrayWeights(arrays)
    expectation = Expectation(config, weights, [3, 1], [0, 1])
    [_, right] = Reference(config, weights, dtype=np.float32).logits([3, 1], [0, 1])
    allowed = sign * TOLERANCE * max(1.0, float(np.abs(right).max()))
    expectation.compare(right, 1, "here")
    expectation.compare(shift_one(right, 0.98 * allowed), 1, "here")
    with pytest.raises(CheckError, match="the exported graph is wrong at here: "):
        expectation.compare(shift_one(right, 1.02 * allowed), 1, "here")


def test_what_float32_itself_loses_is_allowed_for(
    config: GPT2Config, arrays: dict[str, FloatArray]
) -> None:
    """A hundred thousand added to every channel, which the first normalisation takes away again.

    Adding it in float32 rounds by 4e-3 what is of the size of 0.05.
    """
    arrays["wpe.weight"] += 100_000
    weights, asked = ArrayWeights(arrays), [0, 1]
    expectation = Expectation(config, weights, [3, 1], asked)
    right = Reference(config, weights, dtype=np.float32).logits([3, 1], asked)
    noise = float(np.abs(right - Reference(config, weights).logits([3, 1], asked)).max())
    allowed = NOISE_FACTORS[Precision.FP32] * noise
    assert allowed > 2 * TOLERANCE * max(1.0, float(np.abs(right).max()))
    expectation.compare(shift_one(right[1], 0.98 * allowed), 1, "here")
    with pytest.raises(CheckError, match="the exported graph is wrong at here: "):
        expectation.compare(shift_one(right[1], 1.02 * allowed), 1, "here")
