"""Every option against Hugging Face's implementation or vLLM's formula, by stored vectors.

tests/vectors/make_sampling.py made them; 200 random cases of each option alone and of all at once.
"""

import functools
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.history import BannedTexts, History
from gpt2cli.sampling.processors import process
from gpt2cli.sampling.vocabulary import Vocabulary
from gpt2cli.sampling.warpers import warp
from tests.vectors.sampling_cases import (
    CASE_COUNT,
    END_OF_TEXT,
    NAMES,
    NUMBERS,
    VOCAB_SIZE,
    SamplingCase,
    load_cases,
)

# With one byte a token, a banned text and Hugging Face's bad word are the same thing.
_VOCABULARY: Final = Vocabulary(bytes([65 + i]) for i in range(VOCAB_SIZE))
_OFF: Final = {"top_k": 0}
_NO_CONFIGURATION: Final = ("min_new_tokens", "logit_bias", "bad_words")  # of the sampling itself
_PENALTIES: Final = ("presence_penalty", "frequency_penalty")


@functools.cache
def cases() -> list[SamplingCase]:
    return load_cases()


def make_history(case: SamplingCase, names: tuple[str, ...]) -> History:
    """Return the history of the case's completion with some of its options."""
    options: dict[str, Any] = {n: case.numbers[n] for n in names if n not in _NO_CONFIGURATION}
    banned = BannedTexts((spell(word) for word in case.bad_words), _VOCABULARY)
    least = case.numbers["min_new_tokens"] if "min_new_tokens" in names else 0
    history = History(
        SamplingConfig(**(_OFF | options)),
        seed=0,
        prompt_ids=case.prompt_ids,
        biases=tuple(case.biases.items()) if "logit_bias" in names else (),
        bans=banned if "bad_words" in names else None,
        eos_ids=[END_OF_TEXT],
        min_new_tokens=int(least),
    )
    for token_id in case.completion_ids:
        history.append(token_id)
    return history


def spell(ids: tuple[int, ...]) -> bytes:
    return bytes(65 + i for i in ids)


def find_shares(history: History, logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the distribution that is drawn from after a history: [V]."""
    candidates = warp(process(logits, history)[None], history.config)
    shares = np.zeros(VOCAB_SIZE)
    ids = np.arange(VOCAB_SIZE) if candidates.ids is None else candidates.ids[0]
    shares[ids] = candidates.weights[0]
    return shares / shares.sum()


@functools.cache
def find_plain_shares() -> list[NDArray[np.float64]]:
    """Return the distribution of each case without any option: [V] each."""
    return [find_shares(make_history(case, ()), case.logits) for case in cases()]


@pytest.mark.parametrize("name", NAMES)
def test_the_distribution_is_that_of_the_other_implementation(name: str) -> None:
    """The same ids may be drawn, with probabilities within 1e-6.

    In a third of the cases or more the option makes a difference, so that nothing passes idly.
    """
    alone = (*NUMBERS, "logit_bias", "bad_words")
    names = tuple(n for n in alone if n not in _PENALTIES) if name == "all" else (name,)
    changed = 0
    for case, plain in zip(cases(), find_plain_shares(), strict=True):
        shares = find_shares(make_history(case, names), case.logits)
        expected = case.expected[name]
        np.testing.assert_array_equal(shares > 0, expected.kept)
        np.testing.assert_allclose(shares, expected.probabilities, rtol=0, atol=1e-6)
        changed += not np.allclose(plain, expected.probabilities, rtol=0, atol=1e-3)
    assert len(cases()) == CASE_COUNT == 200
    assert changed > CASE_COUNT // 3
