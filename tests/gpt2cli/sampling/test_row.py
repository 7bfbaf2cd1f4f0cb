"""A row's history: what it remembers of its ids, and what that forbids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling import Row
from gpt2cli.sampling.row import NGrams


def test_counts_are_of_the_completion_alone() -> None:
    """While both count as seen."""
    row = Row(SamplingConfig(), seed=0, sample=0, prompt_ids=[1, 2, 1])
    for token_id in (2, 3, 3):
        row.append(token_id)
    assert row.counts == {2: 1, 3: 2}
    assert row.seen == (1, 2, 3)


def test_what_is_forbidden_is_so_for_one_step() -> None:
    """Whoever set it has to say it again."""
    row = Row(SamplingConfig(), seed=0, sample=0, prompt_ids=[1])
    row.forbidden = [np.array([5])]
    assert [places.tolist() for places in row.find_forbidden()] == [[5]]
    row.append(1)
    assert not row.find_forbidden()


def test_repeats_are_forbidden_beside_what_else_is() -> None:
    """The n-grams of prompt and completion: after 1 came 2 and 3."""
    row = Row(SamplingConfig(no_repeat_ngram=2), seed=0, sample=0, prompt_ids=[1, 2, 1])
    for token_id in (3, 1):
        row.append(token_id)
    row.forbidden = [np.array([5])]
    assert [places.tolist() for places in row.find_forbidden()] == [[5], [2, 3]]


@pytest.mark.parametrize(
    ("size", "ids", "repeats"),
    [
        (1, [], []),
        (1, [4], [4]),
        (1, [4, 5, 4], [4, 5]),
        (2, [], []),
        (2, [4], []),
        (2, [4, 4], [4]),
        (2, [4, 5], []),
        (2, [4, 5, 4], [5]),
        (3, [4, 5, 4, 5], [4]),
        (3, [4, 5, 6, 5], []),
        (10**30, [4, 4, 4], []),
    ],
)
def test_an_id_repeats_if_its_ngram_was_there(
    size: int, ids: list[int], repeats: list[int]
) -> None:
    """By hand; a text shorter than the n-gram repeats nothing."""
    assert sorted(set(NGrams(size, ids).find_repeats().tolist())) == repeats


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 5))
def test_repeats_are_those_that_a_search_finds(ids: list[int], size: int) -> None:
    """Exactly the ids that make the last n of the text stand in it already."""
    text = tuple(ids)
    places = range(len(text) - size + 1)
    there = {text[place : place + size] for place in places}
    expected = {i for i in range(3) if (*text, i)[-size:] in there}
    assert set(NGrams(size, ids).find_repeats().tolist()) == expected
