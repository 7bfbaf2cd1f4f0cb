"""Claims about log-probabilities: the model's own, whatever stands beside them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import ModelError
from gpt2cli.sampling.logprobs import Alternative, find_logprobs

LOGITS = np.log(np.array([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]], np.float32))


def plain_logprob(logits: list[float], token_id: int) -> float:
    """Return a log-probability by its definition, in float64."""
    return logits[token_id] - math.log(math.fsum(map(math.exp, logits)))


def test_a_logprob_is_the_natural_log_of_the_probability() -> None:
    """Of four ids with known probabilities; logits may be shifted by anything."""
    for shift in (0, -300, 300):
        found = find_logprobs(LOGITS + np.float32(shift), [1, 3], [0, 0])
        assert [one.token_id for one in found] == [1, 3]
        assert [one.logprob for one in found] == pytest.approx(
            [math.log(0.25), math.log(0.4)], abs=1e-4 if shift else 1e-6
        )


def test_alternatives_are_the_best_with_equals_by_id() -> None:
    """Also where the token is none of them; each row has as many as it asks for."""
    first, second = find_logprobs(LOGITS, [3, 0], [3, 1])
    assert [other.token_id for other in first.alternatives] == [0, 1, 2]
    assert [other.token_id for other in second.alternatives] == [3]
    assert first.alternatives[0].logprob == pytest.approx(math.log(0.5), abs=1e-6)


def test_a_token_among_its_alternatives_has_the_same_logprob() -> None:
    """To the last bit."""
    [found] = find_logprobs(LOGITS[1:], [2], [4])
    assert Alternative(2, found.logprob) == found.alternatives[1]


def test_there_are_no_more_alternatives_than_ids() -> None:
    """Twenty of a vocabulary of four, and none where none are asked for."""
    found = find_logprobs(LOGITS, [0, 0], [20, 0])
    assert [len(one.alternatives) for one in found] == [4, 0]


def test_what_is_all_but_impossible_has_a_logprob_too() -> None:
    """Its probability is too small for any float."""
    [found] = find_logprobs(np.array([[0, 5000]], np.float32), [0], [0])
    assert found.logprob == -5000


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    """Instead of log-probabilities that are none."""
    with pytest.raises(ModelError, match="NaN or infinite"):
        find_logprobs(np.array([[0, bad]], np.float32), [0], [0])


LENGTHS = st.sampled_from([1, 2, 97, 5000])


@given(seed=st.integers(0, 99), rows=st.integers(1, 6), vocab_size=LENGTHS)
def test_a_rows_result_is_that_of_the_row_alone(seed: int, rows: int, vocab_size: int) -> None:
    """To the last bit; and it is that of the plain definition."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 3, (rows, vocab_size)).astype(np.float32)
    ids = random.integers(0, vocab_size, rows).tolist()
    tops = random.integers(0, 5, rows).tolist()
    together = find_logprobs(logits, ids, tops)
    for i in range(rows):
        assert find_logprobs(logits[i : i + 1], ids[i : i + 1], tops[i : i + 1]) == [together[i]]
    assert [one.logprob for one in together] == pytest.approx(
        [plain_logprob(row.tolist(), i) for row, i in zip(logits, ids, strict=True)], abs=1e-9
    )
