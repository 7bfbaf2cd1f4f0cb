"""Owns the table of adapters that peft made, and the reading of its logits with them."""

import json
import pathlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.checkpoints import CheckpointShape, FloatArray, write_checkpoint

ADAPTERS: Final = pathlib.Path(__file__).parents[1] / "export" / "data" / "adapters"
STORED_FILE: Final = pathlib.Path(__file__).with_name("adapters.npz")
BASE_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=16, n_positions=16, vocab_size=97, seed=311
)
BASE_NAME: Final = "tiny-gpt2"  # the folder that the adapters were made for
LARGER_VOCABULARY: Final = 101
POSITIONS: Final = (0, 1, 8, 15)  # whose logits are stored
IDS: Final = tuple(place * 37 % BASE_SHAPE.vocab_size for place in range(BASE_SHAPE.n_positions))

_ALL: Final = ("c_attn", "c_proj", "c_fc")


@dataclass(frozen=True)
class AdapterCase:
    """One adapter: what peft's LoraConfig was given, and the base that it was made for."""

    name: str
    config: Mapping[str, Any]
    tied: bool = True  # of the base
    vocab_size: int = BASE_SHAPE.vocab_size  # after it was resized
    dtype: str = "float32"  # of the adapter's tensors
    saves_embeddings: bool = False
    # Where one matrix is wte and lm_head, LoRA on one of the two changes that one only; but when
    # peft 0.21.2 merges it, it adds it to both, twice if it is on both.
    merges_as_trained: bool = True


CASES: Final = (
    AdapterCase("plain", {"r": 4, "lora_alpha": 8, "target_modules": [*_ALL]}),
    AdapterCase(
        "rslora",
        {"r": 4, "lora_alpha": 6, "target_modules": ["c_attn"], "use_rslora": True},
        dtype="bfloat16",
    ),
    AdapterCase(
        "patterns",
        {
            "r": 4,
            "lora_alpha": 8,
            "target_modules": [*_ALL],
            "rank_pattern": {"c_fc": 2, r"^transformer\.h\.0\.attn\.c_attn": 6},
            "alpha_pattern": {"h.1.attn.c_attn": 32, r"mlp\.c_proj": 3},
        },
    ),
    AdapterCase(
        "saved-resized",
        {"r": 2, "target_modules": ["c_attn"], "modules_to_save": ["wte", "lm_head"]},
        vocab_size=LARGER_VOCABULARY,
    ),
    AdapterCase(
        "resized",
        {"r": 2, "target_modules": ["c_attn"]},
        vocab_size=LARGER_VOCABULARY,
        saves_embeddings=True,
    ),
    AdapterCase(
        "saved-head",
        {"r": 2, "target_modules": ["c_fc"], "modules_to_save": ["lm_head", "ln_f"]},
        tied=False,
    ),
    AdapterCase("saved-wte", {"r": 2, "target_modules": ["c_fc"], "modules_to_save": ["wte"]}),
    AdapterCase(
        "saved-tied",
        {
            "r": 2,
            "target_modules": ["c_fc"],
            "modules_to_save": ["lm_head"],
            "ensure_weight_tying": True,
        },
    ),
    AdapterCase(
        "lora-on-both",
        {"r": 3, "target_modules": ["wte", "lm_head", "c_attn"]},
        merges_as_trained=False,
    ),
    AdapterCase("lora-untied", {"r": 3, "target_modules": ["wte", "wpe", "lm_head"]}, tied=False),
    AdapterCase("bias-lora-only", {"r": 2, "target_modules": ["c_attn"], "bias": "lora_only"}),
    AdapterCase("bias-all", {"r": 2, "target_modules": ["c_proj"], "bias": "all"}),
    AdapterCase("lora-bias", {"r": 2, "target_modules": ["c_fc"], "lora_bias": True}),
)

# Adapters that are merged one after the other, by the name that their logits are stored under.
MERGED: Final[Mapping[str, tuple[AdapterCase, ...]]] = {
    **{case.name: (case,) for case in CASES},
    "two": (CASES[0], CASES[1]),
    "resized-then-saved": (CASES[4], CASES[3]),
}

# Of these only the configuration and the tensors' names count: they are refused.
REFUSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "dora": {"r": 2, "target_modules": ["c_attn"], "use_dora": True},
    "tokens": {"r": 2, "target_modules": ["c_attn"], "trainable_token_indices": [3, 5]},
    "pissa": {"r": 2, "target_modules": ["c_attn"], "init_lora_weights": "pissa"},
    "ia3": {"target_modules": ["c_attn"], "feedforward_modules": []},
}


def write_base(folder: pathlib.Path, *, tied: bool = True) -> pathlib.Path:
    """Write the checkpoint that adapters were made for, and return it."""
    return write_checkpoint(folder / BASE_NAME, BASE_SHAPE, tied=tied)


def load_logits(name: str) -> FloatArray:
    """Return the logits of `IDS` at `POSITIONS` with one of `MERGED`, float32 [K, V]."""
    with np.load(STORED_FILE) as stored:
        logits: npt.NDArray[np.float32] = stored[name]
    return logits


def copy_adapter(name: str, target: pathlib.Path, **changed: Any) -> pathlib.Path:
    """Copy a stored adapter to `target` with fields of its configuration changed."""
    shutil.copytree(ADAPTERS / name, target)
    path = target / "adapter_config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(fields | changed), encoding="utf-8")
    return target
