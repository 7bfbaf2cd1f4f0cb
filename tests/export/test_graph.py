"""The graph's numbers, its interface and what its result may depend on."""

import dataclasses
import itertools
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from export.attention import AttentionForm
from export.config import read_config
from export.graph import build_graph, inputs_of, outputs_of
from export.nodes import Tensor
from export.storage import STORAGES, Precision
from export.weights import expected_weights
from tests.checkpoints import CheckpointShape
from tests.export.graph_session import (
    TOLERANCE,
    PreparedCase,
    difference,
    take_row,
)
from tests.model_folders import ModelFolders
from tests.vectors.cases import GREEDY_PROMPT_LENGTH

# Parity. Expected values: the NumPy oracle in float64, and logits of transformers 5.24.0 that
# tests/vectors/make_logits.py stored.


def test_all_positions_agree_with_the_oracle_and_with_transformers(
    prepared: PreparedCase,
) -> None:
    """One run over `n_positions` tokens."""
    logits = prepared.graph.run_text(prepared.ids)
    assert difference(logits, prepared.expected) <= TOLERANCE
    assert difference(prepared.pick_stored(logits), prepared.stored.logits) <= TOLERANCE
    best = logits[prepared.stored.positions].argmax(axis=-1)
    assert np.array_equal(best, prepared.stored.argmax)


def test_tokens_decoded_one_by_one_agree_with_the_oracle(few: PreparedCase) -> None:
    """One token per run up to the last position."""
    logits = few.graph.run_text(few.ids, range(1, len(few.ids)))
    assert difference(logits, few.expected) <= TOLERANCE


@pytest.mark.parametrize("cuts", [[1], [8], [12, 18], [1, 23]])
def test_a_prefill_in_pieces_agrees_with_the_oracle(
    small: PreparedCase, cuts: Sequence[int]
) -> None:
    """Wherever the prompt is cut, the pieces see all that came before."""
    assert difference(small.graph.run_text(small.ids, cuts), small.expected) <= TOLERANCE


def test_ragged_rows_decode_together_as_the_oracle_says(few: PreparedCase) -> None:
    """Rows of 1, 4, half and nearly all positions, prefilled alone, each go on from its own end."""
    limit = len(few.ids)
    lengths = [1, 4, limit // 2, limit - 2]
    texts = [few.ids[shift:] + few.ids[:shift] for shift in range(len(lengths))]
    cache = few.graph.make_cache(rows=len(lengths), capacity=limit)
    for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        few.graph.run([text[:length]], [0], take_row(cache, row))
    expected = [few.compute_expected(t[: n + 2]) for t, n in zip(texts, lengths, strict=True)]
    for step in range(2):
        places = [length + step for length in lengths]
        ids = [[text[place]] for text, place in zip(texts, places, strict=True)]
        found = few.graph.run(ids, places, cache)[:, 0]  # [B, V]
        wanted = np.stack([e[place] for e, place in zip(expected, places, strict=True)])
        assert difference(found, wanted) <= TOLERANCE


def test_greedy_ids_are_those_of_transformers(prepared: PreparedCase) -> None:
    """After five tokens, the best id of each step is the stored one up to the last position."""
    prompt = prepared.ids[:GREEDY_PROMPT_LENGTH]
    cache = prepared.graph.make_cache(rows=1, capacity=len(prepared.ids))
    logits = prepared.graph.run([prompt], [0], cache)
    found = [int(logits[0, -1].argmax())]
    for place in range(len(prompt), len(prepared.ids) - 1):
        logits = prepared.graph.run([[found[-1]]], [place], cache)
        found.append(int(logits[0, -1].argmax()))
    assert found == prepared.stored.greedy_ids.tolist()


# What the result may not depend on, bit for bit.


def test_neither_the_capacity_nor_what_lies_beyond_the_end_of_a_row_changes_a_bit(
    few: PreparedCase,
) -> None:
    """A cache of 8, 64 or 1024 places, of zeros or of loud noise, gives the same logits."""
    answers = set()
    for capacity, seed in ((8, None), (64, None), (1024, None), (16, 1), (16, 2)):
        cache = few.graph.make_cache(rows=1, capacity=capacity, noise_seed=seed)
        parts = [few.graph.run([few.ids[:3]], [0], cache)]
        parts += [few.graph.run([[few.ids[place]]], [place], cache) for place in range(3, 6)]
        answers.add(b"".join(part.tobytes() for part in parts))
    assert len(answers) == 1


def test_a_run_writes_only_its_own_places_of_the_cache(small: PreparedCase) -> None:
    """Two tokens after three: places 3 and 4 are new, every other keeps its bits."""
    cache = small.graph.make_cache(rows=1, capacity=8, noise_seed=1)
    before = {name: array.copy() for name, array in cache.items()}
    small.graph.run([small.ids[3:5]], [3], cache)
    for name, array in cache.items():
        changed = (array != before[name]).any(axis=(0, 1, 3))
        assert changed.tolist() == [False, False, False, True, True, False, False, False]


# logit_positions.


@pytest.mark.parametrize(
    "asked",
    [[[4], [4]], [[1, 1, 3], [2, 0, 2]], [[4, 3, 2, 1, 0, 0], [0, 1, 2, 3, 4, 4]]],
    ids=["last", "differ-by-row-and-repeat", "more-than-tokens"],
)
def test_logits_come_for_the_asked_places_only(
    small: PreparedCase, asked: Sequence[Sequence[int]]
) -> None:
    """Any choice, order and repetition gives the rows that asking for all gives."""
    texts = [small.ids[:5], small.ids[5:10]]
    every = small.graph.run(texts, [0, 0], small.graph.make_cache(rows=2, capacity=8))
    cache = small.graph.make_cache(rows=2, capacity=8)
    found = small.graph.run(texts, [0, 0], cache, asked=asked)
    wanted = np.stack([every[row][places] for row, places in enumerate(asked)])
    assert difference(found, wanted) <= 1e-6


# The interface.

_SHAPE: Final = CheckpointShape(n_layer=2, n_head=2, n_embd=8, n_positions=6, vocab_size=5)


def _load_model(folder: pathlib.Path) -> onnx.ModelProto:
    return onnx.load(folder / "model.onnx", load_external_data=False)


def _describe(values: Sequence[Any]) -> list[Tensor]:
    """Return name, element type and axes of graph inputs or outputs."""
    return [
        Tensor(
            value.name,
            value.type.tensor_type.elem_type,
            tuple(axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim),
        )
        for value in values
    ]


def test_inputs_and_outputs_are_those_of_the_table(model_folders: ModelFolders) -> None:
    """Names, order, element types and axes; the cache of each layer is [B, H, M, D]."""
    folder = model_folders(_SHAPE, tokenizer="bytes")
    model, config = _load_model(folder), read_config(folder)
    integers = TensorProto.INT64
    cache = [(layer, part) for layer in range(2) for part in ("key", "value")]

    def name_cache(prefix: str) -> list[Tensor]:
        axes = ("B", 2, "M", 4)
        return [Tensor(f"{prefix}.{n}.{part}", TensorProto.FLOAT, axes) for n, part in cache]

    inputs = [
        Tensor("input_ids", integers, ("B", "S")),
        Tensor("position_ids", integers, ("B", "S")),
        Tensor("logit_positions", integers, ("B", "K")),
        *name_cache("past_key_values"),
    ]
    outputs = [Tensor("logits", TensorProto.FLOAT, ("B", "K", 5)), *name_cache("present")]
    assert _describe(model.graph.input) == inputs_of(config) == inputs
    assert _describe(model.graph.output) == outputs_of(config) == outputs


@pytest.mark.parametrize("tied", [True, False])
def test_each_weight_lies_once_on_pages_of_its_own_in_one_relative_file(
    model_folders: ModelFolders, tied: bool
) -> None:
    """Offsets are multiples of 4096, no two overlap; a tied wte serves both its uses."""
    folder = model_folders(_SHAPE, tokenizer="bytes", tied=tied)
    onnx.checker.check_model(folder / "model.onnx")
    external = {t.name: t for t in _load_model(folder).graph.initializer if t.external_data}
    shapes = {name: tuple(tensor.dims) for name, tensor in external.items()}
    assert shapes == expected_weights(read_config(folder))
    assert ("lm_head.weight" in shapes) is not tied
    assert {t.data_type for t in external.values()} == {TensorProto.FLOAT}
    entries = [{entry.key: entry.value for entry in t.external_data} for t in external.values()]
    assert {entry["location"] for entry in entries} == {"model.onnx.data"}
    ranges = sorted((int(e["offset"]), int(e["offset"]) + int(e["length"])) for e in entries)
    assert all(start % 4096 == 0 for start, _ in ranges)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))
    assert ranges[-1][1] == (folder / "model.onnx.data").stat().st_size


def list_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes of a graph and of its branches: no name may be there twice."""
    nodes = list(graph.node)
    branches = [
        attribute.g for node in nodes for attribute in node.attribute if attribute.HasField("g")
    ]
    return nodes + [node for branch in branches for node in list_nodes(branch)]


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("form", AttentionForm)
def test_nodes_are_named_after_their_outputs_and_the_versions_are_pinned(
    model_folders: ModelFolders, precision: Precision, form: AttentionForm
) -> None:
    """Profiles and errors name the place; whatever onnx is installed, the graph is the same.

    Only blocks, and attention in one node per layer, need operators of ONNX Runtime's own.
    """
    config = read_config(model_folders.checkpoint(_SHAPE, tokenizer="bytes"))
    model = build_graph(config, STORAGES[precision], form)
    nodes = model.graph.node
    assert [node.name for node in nodes] == [node.output[0] for node in nodes]
    outputs = [output for node in list_nodes(model.graph) for output in node.output]
    assert len(set(outputs)) == len(outputs)
    portable = form is AttentionForm.PORTABLE
    grouped = form in (AttentionForm.GROUPED, AttentionForm.VERIFYING)
    own = grouped or precision in (Precision.INT8, Precision.INT4)
    opsets = [("", 20 if portable else 24), *([("com.microsoft", 1)] if own else [])]
    assert [(opset.domain, opset.version) for opset in model.opset_import] == opsets
    assert model.ir_version == (9 if portable else 11)
    operators = Counter(node.op_type for node in nodes)
    if form is AttentionForm.GROUPED:  # none copies or transposes heads, or sees the capacity
        assert operators["GroupQueryAttention"] == config.n_layer
        assert not {"Attention", "TensorScatter", "Transpose", "Split", "Range"} & set(operators)


def test_an_activation_without_a_formula_is_no_graph(model_folders: ModelFolders) -> None:
    """A config that read_config would never return is refused rather than built wrong."""
    config = read_config(model_folders.checkpoint(_SHAPE, tokenizer="bytes"))
    with pytest.raises(ValueError, match="softplus"):
        build_graph(dataclasses.replace(config, activation="softplus"))
