"""Owns the making of sampling.npz: distributions by Hugging Face, and by vLLM's formula.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install torch transformers numpy
    python -m tests.vectors.make_sampling

The stored file was made with torch 2.13.0+cpu and transformers 5.24.0; it holds them in
`versions`. Each option runs as transformers itself lists it in `_get_logits_processor`, alone, and
`all` as it lists them together. Presence and frequency penalty, which transformers lacks, are
written here from vLLM's `apply_penalties` (vllm/model_executor/layers/utils.py at commit
00358600ed52e00c3c99b35e54aa916f900c4c15), which needs a GPU to be run.

A case is drawn again if float32 and float64 disagree about what is kept: two right answers could.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import transformers

from tests.vectors.sampling_cases import (
    CASE_COUNT,
    END_OF_TEXT,
    NAMES,
    NO_ID,
    NUMBERS,
    STORED_FILE,
    VOCAB_SIZE,
    Expected,
    SamplingCase,
)

_LONGEST_PROMPT: Final = 12
_LONGEST_COMPLETION: Final = 12
_MOST_WORDS: Final = 4
_LONGEST_WORD: Final = 3
_DIFFERENT_IDS: Final = 8  # of the history, so that much repeats
_LARGEST_DIFFERENCE: Final = 3e-7  # between float32 and float64

# Ours -> the name in transformers' generation config.
_RENAMED: Final = {"no_repeat_ngram": "no_repeat_ngram_size"}
_PENALTIES: Final = ("presence_penalty", "frequency_penalty")


def main() -> None:
    """Draw the cases, compute what comes of them and write sampling.npz."""
    shape = transformers.GPT2Config(
        n_layer=1,
        n_head=1,
        n_embd=8,
        vocab_size=VOCAB_SIZE,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
    )
    model = transformers.GPT2LMHeadModel(shape)  # only for its list of processors
    draws = random.Random(178)
    cases: list[SamplingCase] = []
    refused = 0
    while len(cases) < CASE_COUNT:
        case = _complete(_draw_case(draws), model)
        if case is None:
            refused += 1
        else:
            cases.append(case)
    versions = [f"torch {torch.__version__}", f"transformers {transformers.__version__}"]
    np.savez_compressed(
        STORED_FILE, allow_pickle=False, versions=np.array(versions), **_as_arrays(cases)
    )
    print(f"{STORED_FILE}: {STORED_FILE.stat().st_size} bytes, {refused} cases drawn again")


def _draw_case(draws: random.Random) -> SamplingCase:
    spread = draws.choice([0.5, 1.0, 2.0, 4.0])
    logits = [draws.gauss(0, spread) for _ in range(VOCAB_SIZE)]
    biased = draws.sample(range(VOCAB_SIZE), draws.randint(1, 6))
    words = [_draw_ids(draws, 1, _LONGEST_WORD) for _ in range(draws.randint(1, _MOST_WORDS))]
    return SamplingCase(
        logits=np.array(logits, np.float32),
        prompt_ids=_draw_ids(draws, 1, _LONGEST_PROMPT),
        completion_ids=_draw_ids(draws, 0, _LONGEST_COMPLETION),
        numbers={
            "temperature": draws.choice([0.3, 0.7, 1.3, 2.5]),
            "top_k": draws.randint(1, VOCAB_SIZE + 2),
            "top_p": draws.uniform(0.05, 0.99),
            "min_p": draws.uniform(0.001, 0.5),
            "typical_p": draws.uniform(0.05, 0.99),
            "repetition_penalty": draws.choice([0.5, 1.1, 1.3, 2.0]),
            "presence_penalty": draws.uniform(-2, 2),
            "frequency_penalty": draws.uniform(-2, 2),
            "no_repeat_ngram": draws.randint(1, 4),
            "min_new_tokens": draws.randint(1, _LONGEST_COMPLETION),
        },
        biases={i: float(np.float32(draws.uniform(-10, 10))) for i in biased},
        bad_words=tuple(dict.fromkeys(words)),
        expected={},
    )


def _draw_ids(draws: random.Random, fewest: int, most: int) -> tuple[int, ...]:
    count = draws.randint(fewest, most)
    return tuple(draws.randrange(_DIFFERENT_IDS) for _ in range(count))


def _complete(case: SamplingCase, model: Any) -> SamplingCase | None:
    """Return the case with what is expected; None if rounding decides about it."""
    expected: dict[str, Expected] = {}
    for name in NAMES:
        single, double = (
            _apply(name, case, model, dtype) for dtype in (torch.float32, torch.float64)
        )
        difference = (single.softmax(-1) - double.softmax(-1)).abs().max()
        kept = ~torch.isneginf(double)
        if not torch.equal(~torch.isneginf(single), kept) or difference > _LARGEST_DIFFERENCE:
            return None
        expected[name] = Expected(kept.numpy(), double.softmax(-1).float().numpy())
    return SamplingCase(**(vars(case) | {"expected": expected}))


def _apply(name: str, case: SamplingCase, model: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return what one option makes of the logits: [V]."""
    scores = torch.from_numpy(case.logits).to(dtype)
    if name in _PENALTIES:
        counts = torch.bincount(
            torch.tensor(case.completion_ids, dtype=torch.int64), minlength=VOCAB_SIZE
        )
        amount = counts if name == "frequency_penalty" else counts > 0
        return scores - case.numbers[name] * amount
    ids = torch.tensor([case.prompt_ids + case.completion_ids])
    asked = [n for n in NAMES if n not in (*_PENALTIES, "all")] if name == "all" else [name]
    config = transformers.GenerationConfig(
        do_sample=True, **({"top_k": 0} | dict(_translate(option, case) for option in asked))
    )
    config._eos_token_tensor = torch.tensor([END_OF_TEXT])
    processors = model._get_logits_processor(
        config, input_ids_seq_length=len(case.prompt_ids), device="cpu", model_kwargs={}
    )
    if len(processors) != len(asked):
        raise ValueError(f"{name}: {[type(processor).__name__ for processor in processors]}")
    result: torch.Tensor = processors(ids, scores[None])[0]
    return result


def _translate(option: str, case: SamplingCase) -> tuple[str, Any]:
    if option == "logit_bias":
        return "sequence_bias", [[[i], bias] for i, bias in case.biases.items()]
    if option == "bad_words":
        return "bad_words_ids", [list(word) for word in case.bad_words]
    return _RENAMED.get(option, option), case.numbers[option]


def _as_arrays(cases: Sequence[SamplingCase]) -> Mapping[str, npt.NDArray[Any]]:
    biases = np.zeros((len(cases), VOCAB_SIZE), np.float32)
    words = np.full((len(cases), _MOST_WORDS, _LONGEST_WORD), NO_ID, np.int8)
    for place, case in enumerate(cases):
        biases[place, list(case.biases)] = list(case.biases.values())
        for number, word in enumerate(case.bad_words):
            words[place, number, : len(word)] = word
    arrays: dict[str, npt.NDArray[Any]] = {
        "logits": np.stack([case.logits for case in cases]),
        "prompt_ids": _pad([case.prompt_ids for case in cases], _LONGEST_PROMPT),
        "completion_ids": _pad([case.completion_ids for case in cases], _LONGEST_COMPLETION),
        "biases": biases,
        "bad_words": words,
    }
    for name in NUMBERS:
        arrays[f"numbers/{name}"] = np.array([case.numbers[name] for case in cases])
    for name in NAMES:
        found = [case.expected[name] for case in cases]
        arrays[f"{name}/kept"] = np.stack([expected.kept for expected in found])
        arrays[f"{name}/probabilities"] = np.stack([expected.probabilities for expected in found])
    return arrays


def _pad(lists: Sequence[tuple[int, ...]], length: int) -> npt.NDArray[np.int8]:
    padded = np.full((len(lists), length), NO_ID, np.int8)
    for place, ids in enumerate(lists):
        padded[place, : len(ids)] = ids
    return padded


if __name__ == "__main__":
    main()
