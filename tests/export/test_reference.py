"""The NumPy oracle against logits of transformers."""

import numpy as np
import pytest

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.reference import Reference, softmax
from export.weights import expected_weights
from tests.array_weights import ArrayWeights
from tests.export.graph_session import TOLERANCE, PreparedCase, difference


def test_the_oracle_agrees_with_transformers(once: PreparedCase) -> None:
    """Float64 logits are those of transformers 5.24.0 (make_logits.py), and so are the best ids."""
    assert difference(once.pick_stored(once.expected), once.stored.logits) <= TOLERANCE
    best = once.expected[once.stored.positions].argmax(axis=-1)
    assert np.array_equal(best, once.stored.argmax)


def test_float32_stays_near_float64(small: PreparedCase) -> None:
    """The check's float32 oracle is float32 all through and as near as a right graph must be."""
    with open_checkpoint(small.checkpoint) as weights:
        oracle = Reference(small.config, weights, dtype=np.float32)
        logits = oracle.logits(small.ids, range(len(small.ids)))
    assert logits.dtype == np.float32
    assert difference(logits, small.expected) <= TOLERANCE


def test_logits_come_in_the_order_of_the_asked_positions(small: PreparedCase) -> None:
    """Positions may be few, unordered and repeated."""
    with open_checkpoint(small.checkpoint) as weights:
        logits = Reference(small.config, weights).logits(small.ids, [5, 0, 5])
    assert difference(logits, small.expected[[5, 0, 5]]) <= 1e-12


def test_a_model_of_zeros_gives_zero_logits(small: PreparedCase) -> None:
    """With every weight 0 the logits are 0: a constant row has no variance to divide by."""
    config = read_config(small.checkpoint)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in expected_weights(config).items()}
    assert not Reference(config, ArrayWeights(zeros)).logits([0, 1], [0, 1]).any()


def test_softmax_by_hand() -> None:
    """Logarithms of 1, 2 and 5 give eighths, however large what they share."""
    row = np.log([1.0, 2.0, 5.0])
    assert softmax(row) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert softmax(row + 1000) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
