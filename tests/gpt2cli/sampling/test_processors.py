"""Logits processors: values by hand."""

import numpy as np
import pytest

from gpt2cli.sampling.processors import (
    add_bias,
    forbid,
    penalise_occurrences,
    penalise_repetition,
)

LARGEST = float(np.finfo(np.float32).max)


def test_a_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    """1.5 on [-1, 1] gives [-1.5, 0.667] (transformers#2302)."""
    logits = np.array([-1, 1], np.float32)
    penalised = penalise_repetition(logits, [0, 1], 1.5)
    assert penalised == pytest.approx([-1.5, 2 / 3], rel=1e-6)
    assert penalised.dtype == np.float32


def test_a_penalty_below_one_rewards() -> None:
    """0.5 on [-1, 1] gives [-0.5, 2]: both more likely."""
    logits = np.array([-1, 1], np.float32)
    assert penalise_repetition(logits, [0, 1], 0.5) == pytest.approx([-0.5, 2.0])


def test_a_penalty_touches_seen_ids_only() -> None:
    """Of three equal logits the one that was seen falls."""
    logits = np.array([2, 2, 2], np.float32)
    assert penalise_repetition(logits, [1], 2.0).tolist() == [2, 1, 2]


def test_a_penalty_leaves_zero_and_forbidden_logits() -> None:
    """0 has no sign to act on; minus infinity stays forbidden."""
    logits = np.array([0, -np.inf], np.float32)
    assert penalise_repetition(logits, [0, 1], 2.0).tolist() == [0, -np.inf]


@pytest.mark.parametrize("penalty", [5e-324, 1e-300, 1e300, 1.7976931348623157e308])
def test_an_extreme_penalty_keeps_logits_finite(penalty: float) -> None:
    """At the ends of its range a penalty makes no infinity, and neither NaN nor warning."""
    logits = np.array([-30, 0, 30], np.float32)
    penalised = penalise_repetition(logits, [0, 1, 2], penalty)
    assert np.isfinite(penalised).all()
    assert penalised[0] <= penalised[1] <= penalised[2]


def test_a_penalty_hides_no_bad_logit() -> None:
    """NaN and plus infinity pass through, to be refused by the sampler."""
    logits = np.array([np.nan, np.inf], np.float32)
    penalised = penalise_repetition(logits, [0, 1], 2.0)
    assert np.isnan(penalised[0]) and penalised[1] == np.inf


def test_forbidden_ids_get_minus_infinity() -> None:
    """The others keep their logits."""
    logits = np.array([1, 2, 3], np.float32)
    assert forbid(logits, np.array([0, 2])).tolist() == [-np.inf, 2, -np.inf]


def test_ids_are_forbidden_by_number_and_by_mask() -> None:
    """Any number of times and places; an empty list forbids none."""
    logits = np.array([1, 2, 3, 4], np.float32)
    mask = np.array([False, False, True, True])
    places = np.array([0, 0, 2]), np.empty(0, np.int64), mask
    assert forbid(logits, *places).tolist() == [-np.inf, 2, -np.inf, -np.inf]
    assert forbid(logits).tolist() == [1, 2, 3, 4]


def test_a_bias_is_added() -> None:
    """To its id alone; what is forbidden stays forbidden, and nothing overflows."""
    logits = np.array([1, 2, -np.inf, LARGEST, -LARGEST], np.float32)
    biased = add_bias(logits, np.array([0, 2, 3, 4]), np.array([-3, 9, 100, -100], np.float32))
    assert biased.tolist() == [-2, 2, -np.inf, LARGEST, -LARGEST]
    assert biased.dtype == np.float32


def test_the_frequency_penalty_grows_with_the_count() -> None:
    """0.5 on ids that came once and three times takes 0.5 and 1.5; a negative one gives."""
    logits = np.array([1, 2, 3], np.float32)
    counts = {0: 1, 2: 3}
    assert penalise_occurrences(logits, counts, frequency=0.5, presence=0).tolist() == [0.5, 2, 1.5]
    assert penalise_occurrences(logits, counts, frequency=-2, presence=0).tolist() == [3, 2, 9]


def test_the_presence_penalty_does_not() -> None:
    """0.5 on both takes 0.5; with the other one they add up."""
    logits = np.array([1, 2, 3], np.float32)
    counts = {0: 1, 2: 3}
    assert penalise_occurrences(logits, counts, frequency=0, presence=0.5).tolist() == [0.5, 2, 2.5]
    assert penalise_occurrences(logits, counts, frequency=1, presence=0.5).tolist() == [
        *(-0.5, 2, -0.5)
    ]


def test_penalties_of_occurrences_leave_forbidden_and_far_logits() -> None:
    """Minus infinity stays, the largest float overflows nowhere, nothing seen is nothing done."""
    logits = np.array([-np.inf, LARGEST, -LARGEST], np.float32)
    counts = {0: 10**6, 1: 10**6, 2: 10**6}
    for sign in (-2, 2):
        penalised = penalise_occurrences(logits, counts, frequency=sign, presence=sign)
        assert penalised.tolist() == logits.tolist()
        assert penalised.dtype == np.float32
    assert penalise_occurrences(logits, {}, frequency=2, presence=2).tolist() == logits.tolist()


def test_processors_leave_their_argument() -> None:
    """The logits of a prefix are shared between samples: they must not change."""
    logits = np.array([1, 2], np.float32)
    forbid(logits, np.array([0]))
    add_bias(logits, np.array([0]), np.array([1], np.float32))
    penalise_occurrences(logits, {0: 1}, frequency=1, presence=1)
    penalise_repetition(logits, [1], 2.0)
    assert logits.tolist() == [1, 2]
