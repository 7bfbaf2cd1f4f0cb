"""Logits processors: values by hand. The order and the rest is in the stored vectors."""

import numpy as np
import pytest

from gpt2cli.sampling.processors import (
    add_bias,
    apply_masks,
    penalise_occurrences,
    penalise_repetition,
)

LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(("penalty", "expected"), [(1.5, [-1.5, 2 / 3]), (0.5, [-0.5, 2.0])])
def test_a_penalty_divides_positive_and_multiplies_negative_logits(
    penalty: float, expected: list[float]
) -> None:
    """(transformers#2302); below 1 it rewards. What was not seen is left alone."""
    penalised = penalise_repetition(np.array([-1, 1, 5], np.float32), [0, 1], penalty)
    assert penalised == pytest.approx([*expected, 5], rel=1e-6)
    assert penalised.dtype == np.float32


def test_a_penalty_leaves_zero_and_what_is_no_number() -> None:
    """0 has no sign to act on, a mask stays, and the sampler must see NaN and infinity."""
    logits = np.array([0, -np.inf, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(penalise_repetition(logits, [0, 1, 2, 3], 2.0), logits)


@pytest.mark.parametrize("penalty", [5e-324, 1.7976931348623157e308])
def test_an_extreme_penalty_keeps_logits_finite(penalty: float) -> None:
    """At the ends of its range a penalty makes no infinity, and neither NaN nor warning."""
    penalised = penalise_repetition(np.array([-30, 0, 30], np.float32), [0, 1, 2], penalty)
    assert np.isfinite(penalised).all()
    assert penalised[0] <= penalised[1] <= penalised[2]


def test_a_mask_is_of_ids_or_over_all() -> None:
    """Any number of them; an id may be in several, and an empty one masks none."""
    logits = np.array([1, 2, 3, 4], np.float32)
    masks = np.array([0, 0, 2]), np.empty(0, np.int64), np.array([False, False, True, True])
    assert apply_masks(logits, *masks).tolist() == [-np.inf, 2, -np.inf, -np.inf]


def test_a_bias_is_added() -> None:
    """To its id alone; what is masked stays masked, and nothing overflows."""
    logits = np.array([1, 2, -np.inf, LARGEST, -LARGEST], np.float32)
    biased = add_bias(logits, np.array([0, 2, 3, 4]), np.array([-3, 9, 100, -100], np.float32))
    assert biased.tolist() == [-2, 2, -np.inf, LARGEST, -LARGEST]
    assert biased.dtype == np.float32


@pytest.mark.parametrize(
    ("frequency", "presence", "expected"),
    [
        (0.5, 0, [0.5, 2, 1.5]),
        (-2, 0, [3, 2, 9]),
        (0, 0.5, [0.5, 2, 2.5]),
        (1, 0.5, [-0.5, 2, -0.5]),
    ],
)
def test_only_the_frequency_penalty_grows_with_the_count(
    frequency: float, presence: float, expected: list[float]
) -> None:
    """Of ids that came once and three times; the two add up."""
    logits, counts = np.array([1, 2, 3], np.float32), {0: 1, 2: 3}
    found = penalise_occurrences(logits, counts, frequency=frequency, presence=presence)
    assert found.tolist() == expected


@pytest.mark.parametrize("sign", [-2, 2])
def test_penalties_of_occurrences_leave_masked_and_far_logits(sign: float) -> None:
    """Minus infinity stays, the largest float overflows nowhere."""
    logits, counts = np.array([-np.inf, LARGEST, -LARGEST], np.float32), dict.fromkeys(range(3), 9)
    penalised = penalise_occurrences(logits, counts, frequency=sign, presence=sign)
    assert penalised.tolist() == logits.tolist()
    assert penalised.dtype == np.float32


def test_processors_leave_their_argument() -> None:
    """The logits of a prefix are shared between samples: they must not change."""
    logits = np.array([1, 2], np.float32)
    logits.flags.writeable = False
    apply_masks(logits, np.array([0]))
    add_bias(logits, np.array([0]), np.array([1], np.float32))
    penalise_occurrences(logits, {0: 1}, frequency=1, presence=1)
    penalise_repetition(logits, [1], 2.0)
