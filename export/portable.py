"""The form of the graph that Optimum, transformers.js and onnxruntime-genai load.

Axes here have the names that these programs know: transformers.js takes any other as 0. What was
computed before comes in as `past_key_values.*`, of length zero at first, and goes out with the new
keys and values at its end. `attention_mask` says which of all these places are no padding; where
the padding stands does not matter, since `position_ids` come from outside. In opset 20, the first
with Gelu, every operator is ONNX's own but `MatMulNBits`; all have been run by each of the three,
and by ONNX Runtime's WebAssembly, which has no GatherBlockQuantized (onnxruntime-web 1.31).
"""

from typing import Final

import numpy as np
from onnx import TensorProto, helper

from export.config import GPT2Config
from export.nodes import Nodes, Tensor, merge_heads, split_heads
from export.storage import BlockFormat, Storage

PORTABLE_OPSET: Final = 20
PORTABLE_IR_VERSION: Final = 9  # of ONNX 1.15, which brought that opset

_BATCH: Final = "batch_size"
_NEW: Final = "sequence_length"
_PAST: Final = "past_sequence_length"
_TOTAL: Final = "total_sequence_length"


def portable_inputs(config: GPT2Config, storage: Storage) -> list[Tensor]:
    """Return the inputs in order."""
    return [
        Tensor("input_ids", TensorProto.INT64, (_BATCH, _NEW)),
        Tensor("attention_mask", TensorProto.INT64, (_BATCH, _TOTAL)),  # 1, or 0 for padding
        Tensor("position_ids", TensorProto.INT64, (_BATCH, _NEW)),
        *_cache(config, storage, "past_key_values", _PAST),
    ]


def portable_outputs(config: GPT2Config, storage: Storage) -> list[Tensor]:
    """Return the outputs in order; logits are float32 in every precision."""
    return [
        Tensor("logits", TensorProto.FLOAT, (_BATCH, _NEW, config.vocab_size)),
        *_cache(config, storage, "present", _TOTAL),
    ]


def _cache(config: GPT2Config, storage: Storage, prefix: str, length: str) -> list[Tensor]:
    axes = (_BATCH, config.n_head, length, config.head_dim)
    element_type = helper.np_dtype_to_tensor_dtype(storage.activations)
    return [
        Tensor(f"{prefix}.{layer}.{part}", element_type, axes)
        for layer in range(config.n_layer)
        for part in ("key", "value")
    ]


def locate_portable(g: Nodes) -> None:
    """Derive what each token sees: itself and earlier places, but no padding; T = P + S."""
    total = g.add("Shape", ["attention_mask"], "total.shape", start=1, end=2)  # [1]
    new = g.add("Shape", ["input_ids"], "new.shape", start=1, end=2)  # [1]
    bounds = [g.constant("range.start", 0), g.add("Squeeze", [total], "total")]
    places = g.add("Range", [*bounds, g.constant("range.step", 1)], "places")  # [T]
    past = g.add("Sub", [total, new], "past.shape")
    own = g.add("Slice", [places, past, total], "own.places")  # [S]
    rows = g.add("Unsqueeze", [own, g.constant("places.axis", [1])], "rows")  # [S, 1]
    earlier = g.add("LessOrEqual", [places, rows], "earlier")  # [S, T]
    filled = g.add("Cast", ["attention_mask"], "filled", to=TensorProto.BOOL)  # [B, T]
    filled = g.add("Unsqueeze", [filled, g.constant("filled.axes", [1, 2])], "filled.places")
    g.add("And", [earlier, filled], "visible")  # [B, 1, S, T]


def gather_blocks(g: Nodes, form: BlockFormat) -> str:
    """Return the rows of wte, in blocks of 8 bits, as floats: [B, S] ids -> [B, S, E]; E padded."""
    if form.bits != 8:
        raise ValueError(f"wte has {form.bits} bits; Gather takes no part of a byte")
    rows = g.add("Gather", ["wte.weight.rows", "input_ids"], "wte.bytes")  # [B, S, E]
    numbers = g.add("Cast", [rows], "wte.numbers", to=TensorProto.FLOAT)
    zero_point = g.constant("wte.zero_point", float(form.zero_point))
    signed = g.add("Sub", [numbers, zero_point], "wte.signed")
    shape = g.constant("wte.blocks.shape", [0, 0, -1, form.size])
    blocks = g.add("Reshape", [signed, shape], "wte.in_blocks")  # [B, S, E/size, size]
    scales = g.add("Gather", ["wte.weight.scales", "input_ids"], "wte.scales")  # [B, S, E/size]
    steps = g.add("Unsqueeze", [scales, g.constant("wte.scales.axis", [3])], "wte.steps")
    floats = g.add("Mul", [blocks, steps], "wte.floats")
    return g.add("Reshape", [floats, g.constant("wte.shape", [0, 0, -1])], "wte")


def attend_portable(g: Nodes, config: GPT2Config, packed: str, layer: int) -> str:
    """Add the new keys and values to those before and mix: [B, S, 3E] -> [B, S, E]."""
    name = f"h.{layer}.attn"
    q, k, v = (f"{name}.{part}" for part in "qkv")
    g.add_split("Split", [packed], [q, k, v], axis=-1, num_outputs=3)
    q, k, v = (split_heads(g, config, part) for part in (q, k, v))  # [B, H, S, D]
    keys, values = (
        g.add("Concat", [f"past_key_values.{layer}.{part}", new], f"present.{layer}.{part}", axis=2)
        for part, new in (("key", k), ("value", v))
    )  # [B, H, T, D]
    scale = g.constant(f"{name}.scale", config.attention_scale(layer))
    scaled = g.add("Mul", [q, scale], f"{name}.scaled")
    turned = g.add("Transpose", [keys], f"{name}.turned", perm=[0, 1, 3, 2])  # [B, H, D, T]
    scores = g.add("MatMul", [scaled, turned], f"{name}.scores")  # [B, H, S, T]
    # Not minus infinity: padding may see nothing at all, and its keys and values must be finite.
    lowest = g.constant("lowest", float(np.finfo(g.storage.activations).min))
    seen = g.add("Where", ["visible", scores, lowest], f"{name}.seen")
    weights = g.add("Softmax", [seen], f"{name}.weights", axis=-1)
    mixed = g.add("MatMul", [weights, values], f"{name}.mixed")  # [B, H, S, D]
    return merge_heads(g, config, mixed)
