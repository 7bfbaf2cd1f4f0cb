"""Owns the reading of sampling.npz: random inputs, and what other implementations made of them.

make_sampling.py, which writes the file, says which implementations and which versions.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

STORED_FILE: Final = pathlib.Path(__file__).with_name("sampling.npz")
CASE_COUNT: Final = 200
VOCAB_SIZE: Final = 24
END_OF_TEXT: Final = 23
NO_ID: Final = -1  # pads lists of ids

# One option at a time, and `all` of them but the two penalties that Hugging Face lacks.
NUMBERS: Final = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "no_repeat_ngram",
    "min_new_tokens",
)
NAMES: Final = (*NUMBERS, "logit_bias", "bad_words", "all")


@dataclass(frozen=True)
class Expected:
    """What came out for one option: the ids that may be drawn, and all ids' probabilities."""

    kept: npt.NDArray[np.bool_]  # [V]
    probabilities: npt.NDArray[np.float32]  # [V], after this option and a softmax


@dataclass(frozen=True)
class SamplingCase:
    """Logits and a history, a random value of each option, and what came of each."""

    logits: npt.NDArray[np.float32]  # [V]
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    numbers: Mapping[str, float]  # by NUMBERS
    biases: Mapping[int, float]
    bad_words: tuple[tuple[int, ...], ...]
    expected: Mapping[str, Expected]  # by NAMES


def load_cases() -> list[SamplingCase]:
    """Read all cases."""
    with np.load(STORED_FILE) as stored:
        arrays = dict(stored)
    return [_read_case(arrays, place) for place in range(CASE_COUNT)]


def _read_case(arrays: Mapping[str, npt.NDArray[Any]], place: int) -> SamplingCase:
    biases = arrays["biases"][place]
    return SamplingCase(
        logits=arrays["logits"][place],
        prompt_ids=_read_ids(arrays["prompt_ids"][place]),
        completion_ids=_read_ids(arrays["completion_ids"][place]),
        numbers={name: arrays[f"numbers/{name}"][place].item() for name in NUMBERS},
        biases={int(i): float(biases[i]) for i in np.flatnonzero(biases)},
        bad_words=tuple(word for ids in arrays["bad_words"][place] if (word := _read_ids(ids))),
        expected={
            name: Expected(arrays[f"{name}/kept"][place], arrays[f"{name}/probabilities"][place])
            for name in NAMES
        },
    )


def _read_ids(padded: npt.NDArray[np.int8]) -> tuple[int, ...]:
    return tuple(int(i) for i in padded if i != NO_ID)
