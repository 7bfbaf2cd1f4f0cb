"""Converts the benchmark's checkpoint for llama.cpp: python -m … CHECKPOINT OUT F32|F16|Q8_0|Q4_0.

The float32 file is written by the gguf package; the others are made of it by llama.cpp's own
quantizer, which chooses the type of each tensor.
"""

import json
import pathlib
import re
import sys
from typing import Any, Final

import numpy as np

# File types of llama.h's enum llama_ftype.
_FILE_TYPES: Final = {"F32": 0, "F16": 1, "Q8_0": 7, "Q4_0": 2}
_NAMES: Final = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}
_TOP_NAMES: Final = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
_END_OF_TEXT: Final = "<|endoftext|>"


def convert(checkpoint: pathlib.Path, out: pathlib.Path, precision: str) -> None:
    """Write a file in this precision; the float32 one, F32.gguf beside it, is made if need be."""
    full = out.with_name("F32.gguf")
    full.parent.mkdir(parents=True, exist_ok=True)
    if not full.exists():
        write_full(checkpoint, full)
    if precision != "F32":
        quantize(full, out, precision)


def write_full(checkpoint: pathlib.Path, out: pathlib.Path) -> None:
    """Write all weights in float32, with the vocabulary."""
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    part = out.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_file_type(_FILE_TYPES["F32"])
    _add_vocabulary(writer, checkpoint)
    for name, weight in load_file(checkpoint / "model.safetensors").items():
        is_conv1d = weight.ndim == 2 and ".h." in name  # stored [in, out]
        array = np.ascontiguousarray(weight.T) if is_conv1d else weight
        writer.add_tensor(rename(name), array.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(out)


def rename(name: str) -> str:
    """Return llama.cpp's name for a weight of Hugging Face's."""
    block = re.fullmatch(r"transformer\.h\.(\d+)\.(.+)\.(weight|bias)", name)
    if block is not None:
        return f"blk.{block[1]}.{_NAMES[block[2]]}.{block[3]}"
    _, part, kind = name.split(".")
    return f"{_TOP_NAMES[part]}.{kind}"


def quantize(full: pathlib.Path, out: pathlib.Path, precision: str) -> None:
    """Make a file of another type of a float32 one."""
    import llama_cpp

    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = _FILE_TYPES[precision]
    code = llama_cpp.llama_model_quantize(bytes(full), bytes(out), settings)
    if code:
        raise RuntimeError(f"llama_model_quantize: {code}")


def _add_vocabulary(writer: Any, checkpoint: pathlib.Path) -> None:
    vocabulary = json.loads((checkpoint / "vocab.json").read_text(encoding="utf-8"))
    merges = (checkpoint / "merges.txt").read_text(encoding="utf-8").splitlines()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == _END_OF_TEXT else 1 for token in tokens])  # control
    writer.add_token_merges([line for line in merges if line and not line.startswith("#")])
    writer.add_bos_token_id(vocabulary[_END_OF_TEXT])
    writer.add_eos_token_id(vocabulary[_END_OF_TEXT])


if __name__ == "__main__":
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
