"""The config.json of published checkpoints, field by field as the hub has them."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import pytest

from export.config import read_config

# What openai-community/gpt2 and every checkpoint that was converted in its time have in common.
_COMMON: Final[Mapping[str, Any]] = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
_CONVERSATION: Final = {"task_specific_params": {"conversational": {"max_length": 1000}}}
_LABELS: Final = {
    "_num_labels": 1,
    "id2label": {"0": "LABEL_0"},
    "label2id": {"LABEL_0": 0},
}
_SIZES: Final = {
    "medium": {"n_embd": 1024, "n_head": 16, "n_layer": 24},
    "large": {"n_embd": 1280, "n_head": 20, "n_layer": 36},
    "xl": {"n_embd": 1600, "n_head": 25, "n_layer": 48},
}
_SPECIAL: Final = {"n_special": 0, "predict_special_tokens": True}

_PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai-community/gpt2": {},
    "openai-community/gpt2-medium": {**_SIZES["medium"], **_SPECIAL},
    "openai-community/gpt2-large": _SIZES["large"],
    "openai-community/gpt2-xl": {**_SIZES["xl"], "output_past": True},
    "distilbert/distilgpt2": {"n_layer": 6, **_LABELS},
    "microsoft/DialoGPT-small": _CONVERSATION,
    "microsoft/DialoGPT-medium": {**_SIZES["medium"], **_CONVERSATION},
    "microsoft/DialoGPT-large": {**_SIZES["large"], **_CONVERSATION},
    # as transformers 4 writes them
    "a fine-tuned one": {
        "_name_or_path": "gpt2",
        "gradient_checkpointing": False,
        "n_inner": None,
        "reorder_and_upcast_attn": False,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
        "torch_dtype": "float32",
        "transformers_version": "4.38.2",
        "use_cache": True,
    },
}

# From the GPT-2 report (Radford et al. 2019, table 2) and distilgpt2's model card.
_LAYERS_HEADS_WIDTH: Final = {
    "openai-community/gpt2": (12, 12, 768),
    "openai-community/gpt2-medium": (24, 16, 1024),
    "openai-community/gpt2-large": (36, 20, 1280),
    "openai-community/gpt2-xl": (48, 25, 1600),
    "distilbert/distilgpt2": (6, 12, 768),
    "microsoft/DialoGPT-small": (12, 12, 768),
    "microsoft/DialoGPT-medium": (24, 16, 1024),
    "microsoft/DialoGPT-large": (36, 20, 1280),
    "a fine-tuned one": (12, 12, 768),
}


@pytest.mark.parametrize("name", _PUBLISHED)
def test_a_published_config_is_accepted_and_read(tmp_path: pathlib.Path, name: str) -> None:
    """Its sizes arrive, and whatever else it holds changes nothing."""
    fields = {**_COMMON, **_PUBLISHED[name]}
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    config = read_config(tmp_path)
    assert (config.n_layer, config.n_head, config.n_embd) == _LAYERS_HEADS_WIDTH[name]
    assert (config.n_positions, config.vocab_size) == (1024, 50257)
    assert (config.n_inner, config.head_dim) == (4 * config.n_embd, 64)
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_tanh", 1e-5)
    assert config.scale_attn_weights
    assert config.tie_word_embeddings
    assert not config.scale_attn_by_inverse_layer_idx
    assert (config.bos_token_id, config.eos_token_ids) == (50256, (50256,))
