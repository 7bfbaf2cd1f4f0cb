"""Owns the making of logits.npz: the cases' logits by Hugging Face transformers.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install torch transformers numpy safetensors tokenizers
    python -m tests.vectors.make_logits

The stored file was made with torch 2.13.0+cpu, transformers 5.24.0 and numpy 2.4.6 on Python
3.11; it holds the first three in `versions`.
"""

import dataclasses
import pathlib
import tempfile
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import transformers

from tests.vectors.cases import (
    CASES,
    GREEDY_PROMPT_LENGTH,
    STORED_FILE,
    LogitsCase,
    StoredLogits,
    write_case,
)

# Ids whose Philox keys no weight has.
_IDS_KEY: Final = 2**32
_STORED_VOCABULARY: Final = 64
# Kernels differ by about 1e-5; with a smaller gap two right answers could differ.
_SMALLEST_GAP: Final = 5e-4


def main() -> None:
    """Compute every case and write logits.npz."""
    transformers.utils.logging.disable_progress_bar()
    arrays: dict[str, npt.NDArray[Any]] = {
        "versions": np.array(
            [
                f"torch {torch.__version__}",
                f"transformers {transformers.__version__}",
                f"numpy {np.__version__}",
            ]
        )
    }
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            model = _load_model(write_case(pathlib.Path(folder), case, tokenizer=None), case)
            stored = _compute(model, case)
        gap = min(stored.argmax_gaps.min(), stored.greedy_gaps.min())
        distinct = len(set(stored.greedy_ids.tolist()))
        print(f"{case.name}: gap {gap:.1e}, {distinct} of {len(stored.greedy_ids)} ids distinct")
        if gap < _SMALLEST_GAP:
            raise ValueError(f"{case.name} has a near-tie; give it another seed")
        for field in dataclasses.fields(stored):
            arrays[f"{case.name}/{field.name}"] = getattr(stored, field.name)
    np.savez_compressed(STORED_FILE, allow_pickle=False, **arrays)
    print(f"{STORED_FILE}: {STORED_FILE.stat().st_size} bytes")


def _load_model(folder: pathlib.Path, case: LogitsCase) -> Any:
    model, info = transformers.GPT2LMHeadModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    # from_pretrained draws missing weights anew with no more than a warning.
    problems = {kind: keys for kind, keys in info.items() if keys}
    is_tied = model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
    ignored = {name for name, value in case.config.items() if getattr(model.config, name) != value}
    if problems or ignored or is_tied != case.tied:
        raise ValueError(f"{case.name}: {problems}, ignored {ignored}, tied {is_tied}")
    return model.eval()


def _compute(model: Any, case: LogitsCase) -> StoredLogits:
    n_positions, vocab_size = case.shape.n_positions, case.shape.vocab_size
    ids = _draw_ids(case)
    every_logit = _forward(model, ids)  # [S, V]
    middle, last = n_positions // 2, n_positions - 1
    positions = np.unique([0, 1, 2, middle // 2, middle, middle + 1, middle + 5, last - 1, last])
    vocabulary_ids = _spread_ids(vocab_size)
    greedy_ids = _generate_greedily(model, ids[:GREEDY_PROMPT_LENGTH], n_positions=n_positions)
    greedy_logits = _forward(model, np.concatenate([ids[:GREEDY_PROMPT_LENGTH], greedy_ids[:-1]]))
    greedy_logits = greedy_logits[GREEDY_PROMPT_LENGTH - 1 :]
    if not np.array_equal(greedy_logits.argmax(axis=-1), greedy_ids):
        raise ValueError(f"{case.name}: greedy text with and without a cache differs")
    return StoredLogits(
        ids=ids,
        positions=positions,
        vocabulary_ids=vocabulary_ids,
        logits=every_logit[np.ix_(positions, vocabulary_ids)],
        argmax=every_logit[positions].argmax(axis=-1),
        argmax_gaps=_measure_gaps(every_logit[positions]),
        greedy_ids=greedy_ids,
        greedy_gaps=_measure_gaps(greedy_logits),
    )


def _draw_ids(case: LogitsCase) -> npt.NDArray[np.int64]:
    philox = np.random.Philox(key=np.array([case.ids_seed, _IDS_KEY], dtype=np.uint64))
    words = philox.random_raw(case.shape.n_positions)  # [S] uint64
    return (words % np.uint64(case.shape.vocab_size)).astype(np.int64)


def _spread_ids(vocab_size: int) -> npt.NDArray[np.int64]:
    """Return every id of a small vocabulary, else some from the first to the last."""
    if vocab_size <= 2 * _STORED_VOCABULARY:
        return np.arange(vocab_size)
    return np.arange(_STORED_VOCABULARY) * (vocab_size - 1) // (_STORED_VOCABULARY - 1)


def _forward(model: Any, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    logits: npt.NDArray[np.float32] = (
        model(torch.from_numpy(ids)[None], use_cache=False).logits[0].numpy()
    )
    return logits  # [S, V]


def _generate_greedily(
    model: Any, prompt_ids: npt.NDArray[np.int64], *, n_positions: int
) -> npt.NDArray[np.int64]:
    model.generation_config.eos_token_id = None  # the text goes on to the last position
    answer: npt.NDArray[np.int64] = model.generate(
        torch.from_numpy(prompt_ids)[None],
        attention_mask=torch.ones(1, len(prompt_ids), dtype=torch.int64),
        do_sample=False,
        max_length=n_positions,
        pad_token_id=0,
    )[0].numpy()
    if len(answer) != n_positions:
        raise ValueError(f"greedy text ended at {len(answer)} of {n_positions}")
    return answer[len(prompt_ids) :]


def _measure_gaps(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    ordered = np.partition(logits, -2, axis=-1)
    gaps: npt.NDArray[np.float32] = ordered[:, -1] - ordered[:, -2]
    return gaps


if __name__ == "__main__":
    main()
