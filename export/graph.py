"""GPT-2 written once as ONNX nodes.

The table of inputs and outputs (`inputs_of`, `outputs_of`) is the contract with the code that runs
the graph. Axes: B batch, S new tokens, K asked positions, M cache capacity, H heads, D head_dim,
E n_embd, V vocabulary.

Each row of the cache holds its tokens from index 0 on (right-padded), so a token's position is
also its index in the cache: `position_ids` alone says where keys and values are written and what
each token may see. Bind `past_key_values.*` and `present.*` to the same memory and the cache is
updated in place; what lies beyond a row's last position is never seen, but must be finite.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from export.attention import AttentionForm, attend, locate
from export.config import GPT2Config
from export.nodes import MICROSOFT, Nodes, Tensor
from export.portable import (
    PORTABLE_IR_VERSION,
    PORTABLE_OPSET,
    gather_blocks,
    portable_inputs,
    portable_outputs,
)
from export.steps import STEPWISE, step_outputs
from export.storage import FLOAT32, STORAGES, BlockFormat, Part, Precision, Storage

GRAPH_VERSION: Final = 4  # raised whenever the same checkpoint gives another model folder
# Pinned, for by default a new onnx writes versions that ONNX Runtime does not load yet.
_OPSET: Final = 24  # TensorScatter; Attention with a boolean mask over a padded cache
_MICROSOFT_OPSET: Final = 1
_IR_VERSION: Final = 11
_FP32: Final = STORAGES[Precision.FP32]


def inputs_of(
    config: GPT2Config, storage: Storage = _FP32, form: AttentionForm = AttentionForm.MASKED
) -> list[Tensor]:
    """Return the graph's inputs in order."""
    if form is AttentionForm.PORTABLE:
        return portable_inputs(config, storage)
    stepwise = Tensor(STEPWISE, TensorProto.BOOL, ())  # whether [1, S] tokens are single steps
    return [
        Tensor("input_ids", TensorProto.INT64, ("B", "S")),
        Tensor("position_ids", TensorProto.INT64, ("B", "S")),  # consecutive within a row
        Tensor("logit_positions", TensorProto.INT64, ("B", "K")),  # indices in S, 0-based
        *_cache(config, storage, "past_key_values"),
        *([stepwise] if form is AttentionForm.VERIFYING else []),
    ]


def outputs_of(
    config: GPT2Config, storage: Storage = _FP32, form: AttentionForm = AttentionForm.MASKED
) -> list[Tensor]:
    """Return the graph's outputs in order; logits are float32 in every precision."""
    if form is AttentionForm.PORTABLE:
        return portable_outputs(config, storage)
    layers = range(config.n_layer if form is AttentionForm.VERIFYING else 0)
    names = [name for layer in layers for name in step_outputs(layer)]
    return [
        Tensor("logits", TensorProto.FLOAT, ("B", "K", config.vocab_size)),
        *_cache(config, storage, "present"),
        *(Tensor(name, TensorProto.FLOAT, (None,) * 4) for name in names),
    ]


def _cache(config: GPT2Config, storage: Storage, prefix: str) -> list[Tensor]:
    axes = ("B", config.n_head, "M", config.head_dim)
    element_type = helper.np_dtype_to_tensor_dtype(storage.activations)
    return [
        Tensor(f"{prefix}.{layer}.{part}", element_type, axes)
        for layer in range(config.n_layer)
        for part in ("key", "value")
    ]


def _layer_norm(g: Nodes, config: GPT2Config, x: str, name: str) -> str:
    inputs = [x, f"{name}.weight", f"{name}.bias"]
    return g.add("LayerNormalization", inputs, name, axis=-1, epsilon=config.layer_norm_epsilon)


def _linear(g: Nodes, x: str, name: str, axes: tuple[int, int]) -> str:
    """Apply a weight [in, out] = `axes` and its bias: [B, S, in] -> [B, S, out]."""
    form = g.storage.matrices
    if form is not None:
        return _multiply_blocks(g, [x, f"{name}.weight", f"{name}.bias"], name, form, axes)
    # GPT-2's Conv1D keeps its weights as MatMul takes them, not transposed as a Linear does.
    product = g.add("MatMul", [x, f"{name}.weight"], f"{name}.product")
    return g.add("Add", [product, f"{name}.bias"], name)


def _multiply_blocks(
    g: Nodes, operands: Sequence[str], name: str, form: BlockFormat, axes: tuple[int, int]
) -> str:
    """Multiply x by a weight in blocks, and add a bias if there is a third operand."""
    x, weight, *bias = operands
    return g.add(
        "MatMulNBits",
        [x, f"{weight}.blocks", f"{weight}.scales", *(["", "", *bias] if bias else [])],
        name,
        domain=MICROSOFT,
        K=axes[0],
        N=axes[1],
        bits=form.bits,
        block_size=form.size,
        accuracy_level=form.accuracy_level,
    )


def _activation(g: Nodes, config: GPT2Config, x: str, name: str) -> str:
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


def _mlp(g: Nodes, config: GPT2Config, x: str, layer: int) -> str:
    name, embd, inner = f"h.{layer}.mlp", config.n_embd, config.n_inner
    wide = _linear(g, x, f"{name}.c_fc", (embd, inner))  # [B, S, n_inner]
    active = _activation(g, config, wide, f"{name}.act")
    return _linear(g, active, f"{name}.c_proj", (inner, embd))


def _block(g: Nodes, config: GPT2Config, form: AttentionForm, x: str, layer: int) -> str:
    name, embd = f"h.{layer}.attn", config.n_embd
    normed = _layer_norm(g, config, x, f"h.{layer}.ln_1")
    packed = _linear(g, normed, f"{name}.c_attn", (embd, 3 * embd))  # [B, S, 3E]
    mixed = attend(g, config, form, packed, layer)
    mixed = _linear(g, mixed, f"{name}.c_proj", (embd, embd))
    x = g.add("Add", [x, mixed], f"h.{layer}.attended")
    out = _mlp(g, config, _layer_norm(g, config, x, f"h.{layer}.ln_2"), layer)
    return g.add("Add", [x, out], f"h.{layer}")


def _embed(g: Nodes, config: GPT2Config, form: AttentionForm) -> str:
    tokens = _embed_tokens(g, config, form)  # [B, S, E]
    positions = g.add("Gather", ["wpe.weight", "position_ids"], "wpe")
    return g.add("Add", [tokens, positions], "embedded")


def _embed_tokens(g: Nodes, config: GPT2Config, form: AttentionForm) -> str:
    blocks = g.storage.vocabulary
    if blocks is None:
        return _cast(g, g.add("Gather", ["wte.weight", "input_ids"], "wte"), g.storage.activations)
    gather = gather_blocks if form is AttentionForm.PORTABLE else _gather_blocks
    tokens = gather(g, blocks)
    if config.n_embd % blocks.size == 0:
        return tokens
    bounds = [g.constant("embd.start", [0]), g.constant("embd.stop", [config.n_embd])]
    return g.add("Slice", [tokens, *bounds, g.constant("embd.axis", [2])], "wte.unpadded")


def _gather_blocks(g: Nodes, form: BlockFormat) -> str:
    return g.add(
        "GatherBlockQuantized",
        ["wte.weight.rows", "input_ids", "wte.weight.scales"],
        "wte",
        domain=MICROSOFT,
        bits=form.bits,
        block_size=form.size,
        gather_axis=0,
        quantize_axis=1,
    )


def _cast(g: Nodes, x: str, dtype: np.dtype[Any]) -> str:
    """Turn a float32 into the dtype of the activations, or one of those into float32."""
    if g.storage.activations == FLOAT32:
        return x
    return g.add("Cast", [x], f"{x}.{dtype.name}", to=helper.np_dtype_to_tensor_dtype(dtype))


def _pick_asked(g: Nodes, x: str) -> str:
    """Return the asked positions only, since V is wide: [B, S, E] -> [B, K, E]."""
    # Before the product: the logits of 1,024 positions of the 124M model take 206 MB a row.
    indices = g.add("Unsqueeze", ["logit_positions", g.constant("row.axis", [2])], "asked.indices")
    return g.add("GatherND", [x, indices], "asked", batch_dims=1)


def _logits(g: Nodes, config: GPT2Config, x: str, positions: str) -> str:
    """Apply the output matrix: [B, K, E] -> [B, K, V]; `positions` is an input of shape [B, K]."""
    x = _layer_norm(g, config, x, "ln_f")
    head = "wte.weight" if config.tie_word_embeddings else "lm_head.weight"  # [V, E]
    form = g.storage.vocabulary
    if form is not None:
        axes = (config.n_embd, config.vocab_size)
        return _multiply_blocks(g, [x, head], "logits", form, axes)
    x = _cast(g, x, FLOAT32)
    # Gemm, unlike MatMul, takes [V, E] as it is: a tied wte needs no transposed copy. But it takes
    # matrices only.
    flat = g.add("Reshape", [x, g.constant("flat.shape", [-1, config.n_embd])], "flat")  # [B·K, E]
    scores = g.add("Gemm", [flat, head], "flat_logits", transB=1)  # [B·K, V]
    g.add("Shape", [positions], "asked.shape")
    width = g.constant("vocab_size", [config.vocab_size])
    shape = g.add("Concat", ["asked.shape", width], "logits.shape", axis=0)
    return g.add("Reshape", [scores, shape], "logits")


def build_graph(
    config: GPT2Config,
    storage: Storage = _FP32,
    form: AttentionForm = AttentionForm.MASKED,
) -> ModelProto:
    """Return the graph of `config` without its weights, to be added as initializers.

    They are inputs of nodes under their checkpoint names (`export.checkpoint.expected_weights`),
    or under those of their parts (`export.storage.encode`).
    """
    g = Nodes(storage)
    locate(g, form)
    x = _embed(g, config, form)
    for layer in range(config.n_layer):
        x = _block(g, config, form, x, layer)
    portable = form is AttentionForm.PORTABLE
    if portable:
        _logits(g, config, x, "input_ids")
    else:
        _logits(g, config, _pick_asked(g, x), "logit_positions")
    inputs = [_value_info(tensor) for tensor in inputs_of(config, storage, form)]
    outputs = [_value_info(tensor) for tensor in outputs_of(config, storage, form)]
    graph = helper.make_graph(g.nodes, "gpt2", inputs, outputs, list(g.constants.values()))
    opsets = [helper.make_opsetid("", PORTABLE_OPSET if portable else _OPSET)]
    grouped = form in (AttentionForm.GROUPED, AttentionForm.VERIFYING)
    if grouped or storage.matrices is not None:
        opsets.append(helper.make_opsetid(MICROSOFT, _MICROSOFT_OPSET))
    version = PORTABLE_IR_VERSION if portable else _IR_VERSION
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=version, producer_name="gpt2 export"
    )


def add_weight(model: ModelProto, part: Part, location: str, at: int) -> None:
    """Add one array that lies at byte `at` of the external data file `location`.

    It gets those of its names that the graph's nodes use.
    """
    used = {name for node in model.graph.node for name in node.input}
    element_type = helper.np_dtype_to_tensor_dtype(part.array.dtype)
    for name in filter(used.__contains__, part.shapes):  # in an order that is always the same
        tensor = TensorProto(name=name, data_type=element_type, dims=part.shapes[name])
        tensor.data_location = TensorProto.EXTERNAL
        external = {"location": location, "offset": at, "length": part.array.nbytes}
        for key, value in external.items():
            tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.append(tensor)


def _value_info(tensor: Tensor) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.element_type, tensor.axes)
