"""The graph's numbers, its interface and what its result may depend on."""

import itertools
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from export.attention import AttentionForm
from export.config import GPT2Config, read_config
from export.graph import build_graph, inputs_of, outputs_of
from export.weights import expected_weights
from tests.checkpoints import CheckpointShape
from tests.export.graph_session import (
    TOLERANCE,
    FloatArray,
    GraphSession,
    difference,
    take_row,
)
from tests.export.prepared import PreparedCase
from tests.model_folders import ModelFolders
from tests.vectors.cases import GREEDY_PROMPT_LENGTH

Shape = tuple[int | str, ...]


def run_in_pieces(case: PreparedCase, ids: Sequence[int], cuts: Sequence[int]) -> FloatArray:
    """Run one row in pieces that end at `cuts` -> logits [S, V]."""
    cache = case.graph.make_cache(rows=1, capacity=len(ids))
    edges = [0, *cuts, len(ids)]
    pieces = [
        case.graph.run([ids[start:stop]], [start], cache)[0]
        for start, stop in itertools.pairwise(edges)
    ]
    return np.concatenate(pieces)


# Parity. Expected values: the NumPy oracle in float64, and logits of transformers 5.24.0 that
# tests/vectors/make_logits.py stored.


def test_a_prefill_of_all_positions_agrees_with_the_oracle(prepared: PreparedCase) -> None:
    """One run over `n_positions` tokens gives the oracle's logits at each of them."""
    assert difference(run_in_pieces(prepared, prepared.ids, []), prepared.expected) <= TOLERANCE


def test_a_prefill_of_all_positions_agrees_with_transformers(prepared: PreparedCase) -> None:
    """The same run gives the stored logits and the stored best ids."""
    logits = run_in_pieces(prepared, prepared.ids, [])
    assert difference(prepared.pick_stored(logits), prepared.stored.logits) <= TOLERANCE
    best = logits[prepared.stored.positions].argmax(axis=-1)
    assert np.array_equal(best, prepared.stored.argmax)


def test_decoding_to_the_last_position_agrees_with_the_oracle(prepared: PreparedCase) -> None:
    """One token per run, from the first position to `n_positions` - 1."""
    logits = run_in_pieces(prepared, prepared.ids, range(1, len(prepared.ids)))
    assert difference(logits, prepared.expected) <= TOLERANCE
    assert difference(prepared.pick_stored(logits), prepared.stored.logits) <= TOLERANCE


@pytest.mark.parametrize(
    "shares", [(1 / 3,), (1 / 2, 3 / 4), (0, 1)], ids=["third", "halves", "ends"]
)
def test_a_prefill_in_pieces_agrees_with_the_oracle(
    prepared: PreparedCase, shares: Sequence[float]
) -> None:
    """Wherever the prompt is cut, the pieces see all that came before."""
    last = len(prepared.ids) - 1
    cuts = [max(1, round(share * last)) for share in shares]
    assert difference(run_in_pieces(prepared, prepared.ids, cuts), prepared.expected) <= TOLERANCE


def test_ragged_rows_decode_together_as_the_oracle_says(prepared: PreparedCase) -> None:
    """Rows of 1, 4, half and nearly all positions, prefilled alone, each go on from its own end."""
    limit = len(prepared.ids)
    lengths = [1, 4, limit // 2, limit - 2]
    texts = [prepared.ids[shift:] + prepared.ids[:shift] for shift in range(len(lengths))]
    cache = prepared.graph.make_cache(rows=len(lengths), capacity=limit)
    for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        prepared.graph.run([text[:length]], [0], take_row(cache, row))
    expected = [prepared.compute_expected(t[: n + 2]) for t, n in zip(texts, lengths, strict=True)]
    for step in range(2):
        places = [length + step for length in lengths]
        ids = [[text[place]] for text, place in zip(texts, places, strict=True)]
        found = prepared.graph.run(ids, places, cache)[:, 0]  # [B, V]
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


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("prompt_length", [1, 2, 3, 4, 5])
def test_past_then_more_equals_the_run_without_cache(
    small: PreparedCase, prompt_length: int, rows: int
) -> None:
    """A prefill and five steps give what one run over the whole text gives."""
    total = prompt_length + 5
    texts = [small.ids[row : row + total] for row in range(rows)]
    whole = small.graph.run(texts, [0] * rows, small.graph.make_cache(rows=rows, capacity=total))
    cache = small.graph.make_cache(rows=rows, capacity=total)
    small.graph.run([text[:prompt_length] for text in texts], [0] * rows, cache)
    for place in range(prompt_length, total):
        found = small.graph.run([[text[place]] for text in texts], [place] * rows, cache)
        assert difference(found[:, 0], whole[:, place]) <= TOLERANCE


# What the result may not depend on, bit for bit.


def _answer(
    graph: GraphSession, ids: Sequence[int], *, capacity: int, noise_seed: int | None = None
) -> bytes:
    """Prefill 3 of 6 ids, then decode the rest: all logits as bytes."""
    cache = graph.make_cache(rows=1, capacity=capacity, noise_seed=noise_seed)
    parts = [graph.run([ids[:3]], [0], cache)]
    parts += [graph.run([[ids[place]]], [place], cache) for place in range(3, 6)]
    return b"".join(part.tobytes() for part in parts)


def test_the_capacity_changes_no_bit(prepared: PreparedCase) -> None:
    """A cache of 8, 64 or 1024 places gives the same logits."""
    answers = {_answer(prepared.graph, prepared.ids, capacity=m) for m in (8, 64, 1024)}
    assert len(answers) == 1


def test_what_lies_beyond_the_end_of_a_row_changes_no_bit(prepared: PreparedCase) -> None:
    """Loud noise in the unused places gives the logits that zeros give."""
    seeds = (None, 1, 2)
    answers = {
        _answer(prepared.graph, prepared.ids, capacity=16, noise_seed=seed) for seed in seeds
    }
    assert len(answers) == 1


def test_neighbours_change_no_bit(prepared: PreparedCase) -> None:
    """A row decoded alone, or among two and seven rows of other lengths, gives the same logits."""
    graph, ids = prepared.graph, prepared.ids
    answers = set()
    for rows in (1, 2, 7):
        cache = graph.make_cache(rows=rows, capacity=16, noise_seed=3)
        for row in range(rows):
            graph.run([ids[row : row + 1 + row]], [0], take_row(cache, row))
        found = []
        for step in range(3):
            places = [1 + row + step for row in range(rows)]
            tokens = [[ids[row + place]] for row, place in enumerate(places)]
            found.append(graph.run(tokens, places, cache)[0].tobytes())
        answers.add(b"".join(found))
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
    [
        [[4], [4]],
        [[0, 4], [4, 0]],
        [[1, 1, 3], [2, 0, 2]],
        [[4, 3, 2, 1, 0, 0], [0, 1, 2, 3, 4, 4]],
    ],
    ids=["last", "differ-by-row", "repeats", "more-than-tokens"],
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


def _describe(values: Sequence[Any]) -> dict[str, tuple[int, Shape]]:
    """Return the element type and the axes of graph inputs or outputs, by name, in order."""
    table: dict[str, tuple[int, Shape]] = {}
    for value in values:
        tensor = value.type.tensor_type
        axes = tuple(axis.dim_param or axis.dim_value for axis in tensor.shape.dim)
        table[value.name] = (tensor.elem_type, axes)
    return table


def test_the_inputs_are_those_of_the_table(model_folders: ModelFolders) -> None:
    """Names, order, element types and axes; the cache of each layer is [B, H, M, D]."""
    model = _load_model(model_folders(_SHAPE, tokenizer="bytes"))
    cache = (TensorProto.FLOAT, ("B", 2, "M", 4))
    expected: dict[str, tuple[int, Shape]] = {
        "input_ids": (TensorProto.INT64, ("B", "S")),
        "position_ids": (TensorProto.INT64, ("B", "S")),
        "logit_positions": (TensorProto.INT64, ("B", "K")),
        "past_key_values.0.key": cache,
        "past_key_values.0.value": cache,
        "past_key_values.1.key": cache,
        "past_key_values.1.value": cache,
    }
    found = _describe(model.graph.input)
    assert (found, list(found)) == (expected, list(expected))


def test_the_outputs_are_those_of_the_table(model_folders: ModelFolders) -> None:
    """Logits in float32 over the whole vocabulary, and the updated cache."""
    model = _load_model(model_folders(_SHAPE, tokenizer="bytes"))
    cache = (TensorProto.FLOAT, ("B", 2, "M", 4))
    expected: dict[str, tuple[int, Shape]] = {
        "logits": (TensorProto.FLOAT, ("B", "K", 5)),
        "present.0.key": cache,
        "present.0.value": cache,
        "present.1.key": cache,
        "present.1.value": cache,
    }
    found = _describe(model.graph.output)
    assert (found, list(found)) == (expected, list(expected))


def test_the_table_in_the_code_is_what_is_written(model_folders: ModelFolders) -> None:
    """`inputs_of` and `outputs_of` say of a config what its graph holds."""
    folder = model_folders(_SHAPE, tokenizer="bytes")
    model, config = _load_model(folder), read_config(folder)
    for tensors, values in (
        (inputs_of(config), model.graph.input),
        (outputs_of(config), model.graph.output),
    ):
        assert {t.name: (t.element_type, t.axes) for t in tensors} == _describe(values)


@pytest.mark.parametrize("tied", [True, False])
def test_each_weight_lies_in_the_data_file_once_under_its_own_name(
    model_folders: ModelFolders, tied: bool
) -> None:
    """External initializers are the checkpoint's weights; a tied wte serves both its uses."""
    folder = model_folders(_SHAPE, tokenizer="bytes", tied=tied)
    external = {t.name: t for t in _load_model(folder).graph.initializer if t.external_data}
    shapes = {name: tuple(tensor.dims) for name, tensor in external.items()}
    assert shapes == expected_weights(read_config(folder))
    assert ("lm_head.weight" in shapes) is not tied
    assert {t.data_type for t in external.values()} == {TensorProto.FLOAT}


def test_weights_lie_apart_on_whole_pages_of_one_relative_file(model_folders: ModelFolders) -> None:
    """Offsets are multiples of 4096, no two overlap, and the last one ends the file."""
    folder = model_folders(_SHAPE, tokenizer="bytes")
    places: list[Mapping[str, str]] = [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor in _load_model(folder).graph.initializer
        if tensor.external_data
    ]
    assert {place["location"] for place in places} == {"model.onnx.data"}
    ranges = sorted((int(p["offset"]), int(p["offset"]) + int(p["length"])) for p in places)
    assert all(start % 4096 == 0 for start, _ in ranges)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))
    assert ranges[-1][1] == (folder / "model.onnx.data").stat().st_size


def test_opset_and_ir_version_are_pinned() -> None:
    """The graph asks for opset 24 of ONNX's own operators and IR 11, whatever onnx is installed."""
    model = build_graph(_make_config())
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 24)]
    assert model.ir_version == 11


def test_grouped_attention_is_one_node_a_layer_of_onnx_runtimes_own() -> None:
    """No node copies or transposes heads, and none depends on the capacity."""
    model = build_graph(_make_config(), form=AttentionForm.GROUPED)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 24), ("com.microsoft", 1)]
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["GroupQueryAttention"] == _make_config().n_layer
    assert not {"Attention", "TensorScatter", "Transpose", "Split", "Range"} & set(operators)


@pytest.mark.parametrize("tied", [True, False])
def test_the_onnx_checker_accepts_the_model(model_folders: ModelFolders, tied: bool) -> None:
    """onnx.checker finds nothing wrong with the written files."""
    onnx.checker.check_model(model_folders(_SHAPE, tokenizer="bytes", tied=tied) / "model.onnx")


def test_node_names_are_unique_and_say_where_they_stand() -> None:
    """Each node is named after its first output, so profiles and errors name the place."""
    nodes = build_graph(_make_config()).graph.node
    assert [node.name for node in nodes] == [node.output[0] for node in nodes]
    assert len({output for node in nodes for output in node.output}) == sum(
        len(node.output) for node in nodes
    )


def test_an_activation_without_a_formula_is_no_graph() -> None:
    """A config that read_config would never return is refused rather than built wrong."""
    with pytest.raises(ValueError, match="softplus"):
        build_graph(_make_config(activation="softplus"))


def _make_config(activation: str = "gelu_tanh") -> GPT2Config:
    return GPT2Config(
        n_layer=1,
        n_head=1,
        n_embd=4,
        n_positions=2,
        vocab_size=3,
        n_inner=8,
        activation=activation,
        layer_norm_epsilon=1e-5,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_ids=(),
    )
