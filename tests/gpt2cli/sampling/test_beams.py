"""Claims about the step of a beam search over logits."""

import math

import numpy as np
import pytest

from gpt2cli.config import BeamConfig, SamplingConfig
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.sampling import Continuation, Row, Sampler, rate
from gpt2cli.sampling import find_continuations as find

FIRST = np.log(np.array([0.5, 0.3, 0.2], np.float32))
SECOND = np.log(np.array([0.1, 0.8, 0.1], np.float32))


def row(*, prompt_ids: tuple[int, ...] = (), **options: float) -> Row:
    """Return a beam's row."""
    config = SamplingConfig(**options)  # type: ignore[arg-type]
    return Row(config, seed=0, sample=0, prompt_ids=prompt_ids)


def places(found: list[Continuation]) -> list[tuple[int, int]]:
    """Return the parent and the id of each."""
    return [(one.parent, one.token_id) for one in found]


def test_the_best_of_all_beams_come_first() -> None:
    """By the sum of the log-probabilities: 0.6·0.5, 0.4·0.8, 0.6·0.3, 0.6·0.2 and the rest."""
    totals = [math.log(0.6), math.log(0.4)]
    found = find(Sampler(), np.stack([FIRST, SECOND]), [row(), row()], totals, count=4)
    assert places(found) == [(1, 1), (0, 0), (0, 1), (0, 2)]
    assert [math.exp(one.total) for one in found] == pytest.approx([0.32, 0.3, 0.18, 0.12])


def test_logits_need_not_be_normalised() -> None:
    """A beam is not better for logits that are all higher."""
    logits = np.stack([FIRST, SECOND + np.float32(50)])
    found = find(Sampler(), logits, [row(), row()], [0.0, -1.0], count=2)
    assert places(found) == [(0, 0), (0, 1)]


def test_of_equals_the_earlier_beam_and_the_lower_id_come_first() -> None:
    """Six continuations that are all alike."""
    found = find(Sampler(), np.zeros((2, 3), np.float32), [row(), row()], [0.0, 0.0], count=5)
    assert places(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_there_are_no_more_than_there_can_be() -> None:
    """Three ids, of which one has no text."""
    found = find(Sampler([range(1, 2)]), FIRST[None], [row()], [0.0], count=10)
    assert places(found) == [(0, 0), (0, 2)]


def test_a_missing_id_keeps_its_share() -> None:
    """As in transformers, log-probabilities are of the model's own distribution."""
    found = find(Sampler([range(1)]), FIRST[None], [row()], [0.0], count=1)
    assert found[0].total == pytest.approx(math.log(0.3))


def test_processors_work_on_log_probabilities() -> None:
    """As in transformers: all are negative, so a penalty of 2 doubles one; the sum stays as it is.

    0.5² is 0.25, less than 0.3.
    """
    penalised = row(prompt_ids=(0,), repetition_penalty=2.0)
    found = find(Sampler(), FIRST[None], [penalised], [-7.0], count=2)
    assert places(found) == [(0, 1), (0, 0)]
    assert found[1].total == pytest.approx(-7 + 2 * math.log(0.5))


def test_warpers_do_nothing() -> None:
    """As in transformers without sampling."""
    warped = row(temperature=0.1, top_k=1, top_p=0.1, min_p=0.9)
    found = find(Sampler(), FIRST[None], [warped], [0.0], count=3)
    assert found == find(Sampler(), FIRST[None], [row()], [0.0], count=3)


def test_what_is_forbidden_to_one_beam_is_not_to_another() -> None:
    """Each has its own text."""
    forbidden = row()
    forbidden.forbidden = [np.array([0, 2])]
    found = find(Sampler(), np.stack([FIRST, FIRST]), [forbidden, row()], [0.0, 0.0], count=9)
    assert places(found) == [(1, 0), (0, 1), (1, 1), (1, 2)]


def test_nothing_is_found_where_everything_is_forbidden() -> None:
    """What that means is for others to say."""
    forbidden = row()
    forbidden.forbidden = [np.arange(3)]
    assert find(Sampler(), FIRST[None], [forbidden], [0.0], count=3) == []


def test_logits_that_are_no_numbers_are_an_error() -> None:
    """Also if it is only one of them."""
    logits = np.array([[0, math.nan, 1]], np.float32)
    with pytest.raises(ModelError, match="NaN or infinite"):
        find(Sampler(), logits, [row()], [0.0], count=1)


@pytest.mark.parametrize(
    ("penalty", "score"), [(0.0, -8.0), (1.0, -2.0), (2.0, -0.5), (-1.0, -32.0), (0.5, -4.0)]
)
def test_a_score_is_the_sum_over_a_power_of_the_length(penalty: float, score: float) -> None:
    """Four tokens with -8 together."""
    assert rate(BeamConfig(beams=2, length_penalty=penalty), -8.0, 4) == score


@pytest.mark.parametrize("beams", [0, -1, 257])
def test_a_number_of_beams_out_of_range_is_refused(beams: int) -> None:
    """With the range and the value."""
    with pytest.raises(
        UsageError, match=rf"^beams: expected a whole number 1 to 256, found {beams}$"
    ):
        BeamConfig(beams=beams)


@pytest.mark.parametrize("penalty", [math.nan, math.inf, -10.5, 11])
def test_a_length_penalty_out_of_range_is_refused(penalty: float) -> None:
    """With the range and the value."""
    with pytest.raises(UsageError, match=r"^length_penalty: expected a number between -10 and"):
        BeamConfig(length_penalty=penalty)
