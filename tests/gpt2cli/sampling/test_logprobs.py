"""Claims about log-probabilities: the model's own, whatever stands beside them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import ModelError
from gpt2cli.sampling.logprobs import find_logprobs

LOGITS = np.log(np.array([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]], np.float32))


@pytest.mark.parametrize("shift", [0, -300, 300])
def test_a_logprob_is_the_natural_log_of_the_probability(shift: float) -> None:
    """Of four ids with known probabilities; logits may be shifted by anything."""
    found = find_logprobs(LOGITS + np.float32(shift), [1, 3], 0)
    assert [one.token_id for one in found] == [1, 3]
    assert [one.logprob for one in found] == pytest.approx(
        [math.log(0.25), math.log(0.4)], abs=1e-4 if shift else 1e-6
    )


@pytest.mark.parametrize(
    ("row", "token_id", "top", "alternatives"),
    [(0, 3, 3, [0, 1, 2]), (1, 0, 1, [3]), (1, 2, 20, [3, 2, 1, 0]), (0, 0, 0, [])],
)
def test_alternatives_are_the_best_with_equals_by_id(
    row: int, token_id: int, top: int, alternatives: list[int]
) -> None:
    """As many as are asked for and there are; the token among them has the same logprob."""
    [found] = find_logprobs(LOGITS[row : row + 1], [token_id], top)
    assert [other.token_id for other in found.alternatives] == alternatives
    if token_id in alternatives:
        assert (token_id, found.logprob) in [(o.token_id, o.logprob) for o in found.alternatives]


def test_what_is_all_but_impossible_has_a_logprob_too() -> None:
    """Its probability is too small for any float."""
    [found] = find_logprobs(np.array([[0, 5000]], np.float32), [0], 0)
    assert found.logprob == -5000


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    with pytest.raises(ModelError, match="NaN or infinite"):
        find_logprobs(np.array([[0, bad]], np.float32), [0], 0)


@given(st.integers(0, 99), st.integers(1, 6), st.sampled_from([1, 2, 97, 5000]))
def test_a_rows_result_is_that_of_the_row_alone(seed: int, rows: int, vocab_size: int) -> None:
    """To the last bit; and it is that of the plain definition."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 3, (rows, vocab_size)).astype(np.float32)
    ids = random.integers(0, vocab_size, rows).tolist()
    top = int(random.integers(0, 5))
    together = find_logprobs(logits, ids, top)
    for i, row in enumerate(logits.tolist()):
        assert find_logprobs(logits[i : i + 1], ids[i : i + 1], top) == [together[i]]
        plain = row[ids[i]] - math.log(math.fsum(map(math.exp, row)))
        assert together[i].logprob == pytest.approx(plain, abs=1e-9)
