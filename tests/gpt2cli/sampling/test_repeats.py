"""DRY: against a scalar oracle of llama.cpp's, and by hand where that has no answer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.history import History
from gpt2cli.sampling.processors import process
from gpt2cli.sampling.repeats import Breakers
from gpt2cli.sampling.vocabulary import Vocabulary
from tests.gpt2cli.sampling import llama_cpp

LETTERS = Vocabulary([b"a", b"b", b"c", b"d"])


def find_penalties(
    ids: list[int], breakers: list[bytes], vocabulary: Vocabulary = LETTERS, **options: Any
) -> dict[int, float]:
    """Return what is subtracted from logits of 0, half of the ids a prompt."""
    config = SamplingConfig(**({"dry_multiplier": 1.0} | options))
    half = len(ids) // 2
    history = History(
        config, seed=0, prompt_ids=ids[:half], breakers=Breakers(breakers, vocabulary)
    )
    for token_id in ids[half:]:
        history.append(token_id)
    logits = process(np.zeros(len(vocabulary.pieces), np.float32), history.fork())
    return {i: -float(score) for i, score in enumerate(logits) if score}


@given(
    st.lists(st.integers(0, 3), max_size=40),
    st.sets(st.integers(0, 3), max_size=2),
    st.integers(1, 4),
    st.sampled_from([1.0, 1.75, 3.0]),
    st.integers(-1, 30),
)
def test_penalties_are_those_of_llama_cpp(
    ids: list[int], breakers: set[int], allowed: int, base: float, last: int
) -> None:
    """Of any text, with breakers of one token, over all of it or its last tokens."""
    expected = llama_cpp.find_dry_penalties(
        ids, breakers, multiplier=0.5, base=base, allowed_length=allowed, last_n=last
    )
    options: dict[str, Any] = {
        "dry_base": base,
        "dry_allowed_length": allowed,
        "repeat_last_n": last,
    }
    texts = [LETTERS.pieces[i] for i in breakers]
    found = find_penalties(ids, texts, dry_multiplier=0.5, **options)
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_longer_repetition_costs_more() -> None:
    """After abcd-abc the d followed three tokens: 1.75 to the power of one."""
    assert find_penalties([0, 1, 2, 3, 0, 1, 2], []) == {3: 1.75}
    assert find_penalties([0, 1, 3, 3, 0, 1], []) == {3: 1.0}
    assert find_penalties([0, 1, 3, 3, 1], []) == {}


@pytest.mark.parametrize(
    ("breakers", "expected"),
    [
        ([b"xy"], {4: 1.0}),  # two ids come after it
        ([b"bc"], {}),  # in the last one
        ([b"zy"], {4: 1.75**2}),  # nowhere
    ],
)
def test_a_breaker_is_found_however_it_is_split(
    breakers: list[bytes], expected: dict[int, float]
) -> None:
    """The tokens are x, y, ab and so on; a repetition begins after the one it ends in."""
    vocabulary = Vocabulary([b"x", b"y", b"ab", b"c", b"d"])
    ids = [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert find_penalties(ids, breakers, vocabulary) == pytest.approx(expected)


def test_however_long_a_repetition_is_logits_stay_finite() -> None:
    """Also with a base that no power of it fits."""
    ids = [0] * 400
    assert find_penalties(ids, [], dry_base=1e9) == {0: float(np.finfo(np.float32).max)}
