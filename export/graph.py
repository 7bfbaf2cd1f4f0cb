"""GPT-2 written once as ONNX nodes.

The table of inputs and outputs (`inputs_of`, `outputs_of`) is the contract with whoever runs the
graph. Axes: B batch, S new tokens, K asked positions, M cache capacity, H heads, D head_dim,
E n_embd, V vocabulary.

Each row of the cache holds its tokens from place 0 on (right-padded), so a token's position is
also its place in the cache: `position_ids` alone says where keys and values are written and what
each token may see. Bind `past_key_values.*` and `present.*` to the same memory and the cache is
updated in place; what lies beyond a row's last position is never seen, but must be finite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from export.config import GPT2Config

GRAPH_VERSION: Final = 1  # raised whenever the graph of the same checkpoint changes
_OPSET: Final = 24  # TensorScatter; Attention with a boolean mask over a padded cache
_IR_VERSION: Final = 11


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output of the graph: its name, ONNX element type and axes."""

    name: str
    element_type: int
    axes: tuple[int | str, ...]


def inputs_of(config: GPT2Config) -> list[Tensor]:
    """Return the graph's inputs in order."""
    return [
        Tensor("input_ids", TensorProto.INT64, ("B", "S")),
        Tensor("position_ids", TensorProto.INT64, ("B", "S")),  # consecutive within a row
        Tensor("logit_positions", TensorProto.INT64, ("B", "K")),  # places in S, 0-based
        *_cache(config, "past_key_values"),
    ]


def outputs_of(config: GPT2Config) -> list[Tensor]:
    """Return the graph's outputs in order."""
    return [
        Tensor("logits", TensorProto.FLOAT, ("B", "K", config.vocab_size)),
        *_cache(config, "present"),
    ]


def _cache(config: GPT2Config, prefix: str) -> list[Tensor]:
    axes = ("B", config.n_head, "M", config.head_dim)
    return [
        Tensor(f"{prefix}.{layer}.{part}", TensorProto.FLOAT, axes)
        for layer in range(config.n_layer)
        for part in ("key", "value")
    ]


class _Graph:
    """Collects nodes. Every node and every constant is named after its output, which is unique."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._outputs: set[str] = set()

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        self.add_split(op, inputs, [output], **attributes)
        return output

    def add_split(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Add a node with several outputs."""
        taken = self._outputs.intersection(outputs)
        if taken:
            raise ValueError(f"two nodes write {sorted(taken)}")
        self._outputs.update(outputs)
        node = helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)
        self.nodes.append(node)

    def constant(self, name: str, value: Sequence[int] | int | float) -> str:
        """Return the name of a constant, int64 or float32; same name, same value."""
        dtype = np.float32 if isinstance(value, float) else np.int64
        array: NDArray[Any] = np.array(value, dtype)
        tensor = numpy_helper.from_array(array, name)
        if self.constants.setdefault(name, tensor) != tensor:
            raise ValueError(f"constant {name} has two values")
        return name


def _layer_norm(g: _Graph, config: GPT2Config, x: str, name: str) -> str:
    inputs = [x, f"{name}.weight", f"{name}.bias"]
    return g.add("LayerNormalization", inputs, name, axis=-1, epsilon=config.layer_norm_epsilon)


def _linear(g: _Graph, x: str, name: str) -> str:
    product = g.add("MatMul", [x, f"{name}.weight"], f"{name}.product")  # weight [in, out]
    return g.add("Add", [product, f"{name}.bias"], name)


def _activation(g: _Graph, config: GPT2Config, x: str, name: str) -> str:
    match config.activation:
        case "gelu_tanh":
            return g.add("Gelu", [x], name, approximate="tanh")
        case "gelu_erf":
            return g.add("Gelu", [x], name, approximate="none")
        case "gelu_sigmoid":
            scaled = g.add("Mul", [x, g.constant("gelu_sigmoid.factor", 1.702)], f"{name}.scaled")
            return g.add("Mul", [x, g.add("Sigmoid", [scaled], f"{name}.sigmoid")], name)
        case "silu":
            return g.add("Mul", [x, g.add("Sigmoid", [x], f"{name}.sigmoid")], name)
        case "relu":
            return g.add("Relu", [x], name)
        case "tanh":
            return g.add("Tanh", [x], name)
    raise ValueError(f"no formula for activation {config.activation}")


def _split_heads(g: _Graph, config: GPT2Config, x: str) -> str:
    shape = g.constant("heads.shape", [0, 0, config.n_head, config.head_dim])
    apart = g.add("Reshape", [x, shape], f"{x}.heads")  # [B, S, H, D]
    return g.add("Transpose", [apart], f"{x}.by_head", perm=[0, 2, 1, 3])  # [B, H, S, D]


def _merge_heads(g: _Graph, config: GPT2Config, x: str) -> str:
    rows = g.add("Transpose", [x], f"{x}.by_token", perm=[0, 2, 1, 3])  # [B, S, H, D]
    shape = g.constant("hidden.shape", [0, 0, config.n_embd])
    return g.add("Reshape", [rows, shape], f"{x}.merged")  # [B, S, E]


def _attention(g: _Graph, config: GPT2Config, x: str, layer: int) -> str:
    name = f"h.{layer}.attn"
    packed = _linear(g, x, f"{name}.c_attn")  # [B, S, 3E]
    q, k, v = (f"{name}.{part}" for part in "qkv")
    g.add_split("Split", [packed], [q, k, v], axis=-1, num_outputs=3)
    q, k, v = (_split_heads(g, config, part) for part in (q, k, v))  # [B, H, S, D]
    past, present = f"past_key_values.{layer}", f"present.{layer}"
    for part, new in (("key", k), ("value", v)):  # [B, H, M, D]
        place = [f"{past}.{part}", new, "write_indices"]
        g.add("TensorScatter", place, f"{present}.{part}", axis=2)
    mixed = g.add(
        "Attention",
        [q, f"{present}.key", f"{present}.value", "visible"],
        f"{name}.mixed",
        scale=config.attention_scale(layer),
        is_causal=0,  # "visible" says it all
    )  # [B, H, S, D]
    return _linear(g, _merge_heads(g, config, mixed), f"{name}.c_proj")


def _mlp(g: _Graph, config: GPT2Config, x: str, layer: int) -> str:
    inner = _linear(g, x, f"h.{layer}.mlp.c_fc")  # [B, S, n_inner]
    return _linear(g, _activation(g, config, inner, f"h.{layer}.mlp.act"), f"h.{layer}.mlp.c_proj")


def _block(g: _Graph, config: GPT2Config, x: str, layer: int) -> str:
    mixed = _attention(g, config, _layer_norm(g, config, x, f"h.{layer}.ln_1"), layer)
    x = g.add("Add", [x, mixed], f"h.{layer}.attended")
    out = _mlp(g, config, _layer_norm(g, config, x, f"h.{layer}.ln_2"), layer)
    return g.add("Add", [x, out], f"h.{layer}")


def _embed(g: _Graph) -> str:
    tokens = g.add("Gather", ["wte.weight", "input_ids"], "wte")  # [B, S, E]
    positions = g.add("Gather", ["wpe.weight", "position_ids"], "wpe")
    return g.add("Add", [tokens, positions], "embedded")


def _locate(g: _Graph) -> None:
    """Derive where new keys and values go, and which places of the cache each token sees."""
    g.add("Gather", ["position_ids", g.constant("first", 0)], "write_indices", axis=1)  # [B]
    g.add("Shape", ["past_key_values.0.key"], "capacity.shape", start=2, end=3)
    capacity = g.add("Squeeze", ["capacity.shape"], "capacity")  # M
    bounds = [g.constant("range.start", 0), capacity, g.constant("range.step", 1)]
    places = g.add("Range", bounds, "places")  # [M]
    axes = g.constant("mask.axes", [1, 3])
    positions = g.add("Unsqueeze", ["position_ids", axes], "positions")  # [B, 1, S, 1]
    g.add("LessOrEqual", [places, positions], "visible")  # [B, 1, S, M]


def _logits(g: _Graph, config: GPT2Config, x: str) -> str:
    """Apply the output matrix at the asked positions only: V is wide, the rest is not needed."""
    indices = g.add("Unsqueeze", ["logit_positions", g.constant("row.axis", [2])], "asked.indices")
    asked = g.add("GatherND", [x, indices], "asked", batch_dims=1)  # [B, K, E]
    x = _layer_norm(g, config, asked, "ln_f")
    flat = g.add("Reshape", [x, g.constant("flat.shape", [-1, config.n_embd])], "flat")  # [B·K, E]
    head = "wte.weight" if config.tie_word_embeddings else "lm_head.weight"  # [V, E]
    scores = g.add("Gemm", [flat, head], "flat_logits", transB=1)  # [B·K, V]
    g.add("Shape", ["logit_positions"], "asked.shape")
    width = g.constant("vocab_size", [config.vocab_size])
    shape = g.add("Concat", ["asked.shape", width], "logits.shape", axis=0)
    return g.add("Reshape", [scores, shape], "logits")


def build_graph(config: GPT2Config) -> ModelProto:
    """Return the graph of `config` in float32 without its weights.

    The weights are inputs of nodes under their checkpoint names (those of
    `export.checkpoint.expected_weights`), still to be added as initializers.
    """
    g = _Graph()
    _locate(g)
    x = _embed(g)
    for layer in range(config.n_layer):
        x = _block(g, config, x, layer)
    _logits(g, config, x)
    inputs = [_value_info(tensor) for tensor in inputs_of(config)]
    outputs = [_value_info(tensor) for tensor in outputs_of(config)]
    graph = helper.make_graph(g.nodes, "gpt2", inputs, outputs, list(g.constants.values()))
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="gpt2 export",
    )


def add_weight(model: ModelProto, name: str, shape: Sequence[int], location: str, at: int) -> None:
    """Add one float32 weight that lies at byte `at` of the external data file `location`."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    size = 4 * int(np.prod(shape))
    for key, value in (("location", location), ("offset", at), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)


def _value_info(tensor: Tensor) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.element_type, tensor.axes)
