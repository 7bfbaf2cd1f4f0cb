"""Attention over the KV cache, in three forms with the same inputs and outputs, and one for others.

MASKED is made of standard operators and computes every position of the cache, then masks those
that a token may not see: it runs on every provider, in every dtype, with heads of every size.
GROUPED is one node per layer that reads only the positions in use, so long texts and short prompts
cost less, and it takes the output of `c_attn` as it is. ONNX Runtime has no such node for float32
on CUDA, nor for heads whose size is no multiple of 8; with several rows it takes one token each.
VERIFYING is GROUPED, and can besides take a few tokens of a row as single steps (`export.steps`).
PORTABLE has inputs and outputs that other programs know (`export.portable`).
"""

from enum import Enum, auto
from typing import Final

from onnx import TensorProto

from export.config import GPT2Config
from export.nodes import Nodes, merge_heads, split_heads
from export.portable import attend_portable, locate_portable
from export.steps import (
    LAST_PLACES,
    LONGEST_LENGTH,
    attend_by_steps,
    attend_grouped,
    locate_steps,
)
from export.storage import FLOAT32, Storage

_GROUPED_HEAD_DIM: Final = 8  # GroupQueryAttention refuses a head_dim that is no multiple of it


class AttentionForm(Enum):
    """By which operators a graph computes attention."""

    MASKED = auto()  # TensorScatter and Attention
    GROUPED = auto()  # GroupQueryAttention
    VERIFYING = auto()  # several of them in one call, if it is asked for
    PORTABLE = auto()  # what Optimum and its like load: `export.portable`


def can_be_grouped(config: GPT2Config, storage: Storage) -> bool:
    """Tell whether the CPU has GroupQueryAttention for this model in this storage."""
    return storage.activations == FLOAT32 and config.head_dim % _GROUPED_HEAD_DIM == 0


def locate(g: Nodes, form: AttentionForm) -> None:
    """Derive where new keys and values go, and what each token sees."""
    if form is AttentionForm.PORTABLE:
        locate_portable(g)
        return
    if form is AttentionForm.MASKED:
        _locate_masked(g)
        return
    _locate_grouped(g)
    if form is AttentionForm.VERIFYING:
        locate_steps(g)


def attend(g: Nodes, config: GPT2Config, form: AttentionForm, packed: str, layer: int) -> str:
    """Add the layer's new keys and values to the cache and mix: [B, S, 3E] -> [B, S, E]."""
    if form is AttentionForm.PORTABLE:
        return attend_portable(g, config, packed, layer)
    if form is AttentionForm.MASKED:
        return _attend_masked(g, config, packed, layer)
    if form is AttentionForm.VERIFYING:
        return attend_by_steps(g, config, packed, layer)
    return attend_grouped(g, config, packed, layer)


def _locate_grouped(g: Nodes) -> None:
    # The node wants each row's length less one: in a right-padded row that is its last position.
    last = g.add("Gather", ["position_ids", g.constant("last", -1)], "last_position", axis=1)
    g.add("Cast", [last], LAST_PLACES, to=TensorProto.INT32)  # [B]
    highest = g.add("ReduceMax", ["position_ids"], "highest_position", keepdims=0)
    length = g.add("Add", [highest, g.constant("one", 1)], "longest")
    g.add("Cast", [length], LONGEST_LENGTH, to=TensorProto.INT32)  # of all rows


def _locate_masked(g: Nodes) -> None:
    g.add("Gather", ["position_ids", g.constant("first", 0)], "write_indices", axis=1)  # [B]
    g.add("Shape", ["past_key_values.0.key"], "capacity.shape", start=2, end=3)
    capacity = g.add("Squeeze", ["capacity.shape"], "capacity")  # M
    bounds = [g.constant("range.start", 0), capacity, g.constant("range.step", 1)]
    indices = g.add("Range", bounds, "places")  # [M]
    axes = g.constant("mask.axes", [1, 3])
    positions = g.add("Unsqueeze", ["position_ids", axes], "positions")  # [B, 1, S, 1]
    # A position is an index of the cache: one comparison hides later tokens and unused places.
    g.add("LessOrEqual", [indices, positions], "visible")  # [B, 1, S, M]


def _attend_masked(g: Nodes, config: GPT2Config, packed: str, layer: int) -> str:
    name = f"h.{layer}.attn"
    q, k, v = (f"{name}.{part}" for part in "qkv")
    g.add_split("Split", [packed], [q, k, v], axis=-1, num_outputs=3)
    q, k, v = (split_heads(g, config, part) for part in (q, k, v))  # [B, H, S, D]
    past, present = f"past_key_values.{layer}", f"present.{layer}"
    for part, new in (("key", k), ("value", v)):  # [B, H, M, D]
        inputs = [f"{past}.{part}", new, "write_indices"]
        g.add("TensorScatter", inputs, f"{present}.{part}", axis=2)
    mixed = g.add(
        "Attention",
        [q, f"{present}.key", f"{present}.value", "visible"],
        f"{name}.mixed",
        scale=config.attention_scale(layer),
        # "visible" says it all. is_causal with nonpad_kv_seqlen would not: ONNX Runtime 1.24
        # ignores the latter, and from 1.27 to 1.28 the former came to count from the other end.
        is_causal=0,
    )  # [B, H, S, D]
    return merge_heads(g, config, mixed)
