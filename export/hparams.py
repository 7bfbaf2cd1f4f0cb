"""What `hparams.json` of OpenAI's GPT-2 means, as the fields of a `config.json`."""

import json
from collections.abc import Mapping
from typing import Any, Final

HPARAMS_FILE: Final = "hparams.json"

# `default_hparams` of openai/gpt-2 `src/model.py` @ 9b63575 -> Hugging Face's name.
_FIELDS: Final[Mapping[str, str]] = {
    "n_vocab": "vocab_size",
    "n_ctx": "n_positions",
    "n_embd": "n_embd",
    "n_head": "n_head",
    "n_layer": "n_layer",
}
# What the code computes, whatever the sizes.
_FIXED: Final[Mapping[str, Any]] = {
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
}
_TRAINING: Final = "dropout"  # in the names that programs for fine-tuning add


def find_hparams_faults(hparams: Mapping[str, Any]) -> list[str]:
    """Return why these are not what OpenAI's GPT-2 has; the values are checked later."""
    faults = [f"{HPARAMS_FILE} has no {name}" for name in _FIELDS if name not in hparams]
    for name, value in hparams.items():
        if name not in _FIELDS and _TRAINING not in name:
            faults.append(
                f"{HPARAMS_FILE} has {name} = {json.dumps(value)[:80]}, which OpenAI's GPT-2 has "
                "not: not implemented; if it changes nothing that is computed, remove it"
            )
    return faults


def as_config(hparams: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a `config.json` that say the same."""
    return {**_FIXED, **{name: hparams[field] for field, name in _FIELDS.items()}}
