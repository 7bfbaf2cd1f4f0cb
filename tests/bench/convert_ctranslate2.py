"""Converts the benchmark's checkpoint for CTranslate2: python -m … CHECKPOINT OUT float32|int8.

CTranslate2's own converter (its converters/transformers.py, GPT2Loader, which this follows) would
need torch beside it.
"""

import json
import pathlib
import sys
from typing import Any

import numpy as np


def convert(checkpoint: pathlib.Path, out: pathlib.Path, precision: str) -> None:
    """Write a model in this precision to the folder `out`."""
    from ctranslate2.specs import common_spec, transformer_spec
    from safetensors.numpy import load_file

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    weights = load_file(checkpoint / "model.safetensors")
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config["n_layer"],
        config["n_head"],
        pre_norm=True,
        activation=common_spec.Activation.GELUTanh,
    )
    fill_decoder(spec.decoder, weights)
    vocabulary = json.loads((checkpoint / "vocab.json").read_text(encoding="utf-8"))
    spec.register_vocabulary(sorted(vocabulary, key=vocabulary.__getitem__))
    for name in ("bos_token", "eos_token", "unk_token"):
        setattr(spec.config, name, "<|endoftext|>")
    spec.config.layer_norm_epsilon = config["layer_norm_epsilon"]
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    out.mkdir(parents=True)
    spec.save(str(out))


def fill_decoder(decoder: Any, weights: dict[str, Any]) -> None:
    """Give every variable of the specification its weight."""
    decoder.scale_embeddings = False
    decoder.embeddings.weight = weights["transformer.wte.weight"]
    decoder.position_encodings.encodings = weights["transformer.wpe.weight"]
    decoder.projection.weight = weights["transformer.wte.weight"]
    _fill_norm(decoder.layer_norm, weights, "transformer.ln_f")
    for number, layer in enumerate(decoder.layer):
        block = f"transformer.h.{number}"
        _fill_norm(layer.self_attention.layer_norm, weights, f"{block}.ln_1")
        _fill_linear(layer.self_attention.linear[0], weights, f"{block}.attn.c_attn")
        _fill_linear(layer.self_attention.linear[1], weights, f"{block}.attn.c_proj")
        _fill_norm(layer.ffn.layer_norm, weights, f"{block}.ln_2")
        _fill_linear(layer.ffn.linear_0, weights, f"{block}.mlp.c_fc")
        _fill_linear(layer.ffn.linear_1, weights, f"{block}.mlp.c_proj")


def _fill_norm(spec: Any, weights: dict[str, Any], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _fill_linear(spec: Any, weights: dict[str, Any], name: str) -> None:
    spec.weight = np.ascontiguousarray(weights[f"{name}.weight"].T)  # Conv1D's is [in, out]
    spec.bias = weights[f"{name}.bias"]


if __name__ == "__main__":
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
