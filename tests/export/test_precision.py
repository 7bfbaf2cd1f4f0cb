"""The graphs of the lower precisions: their numbers, their interface, and what a batch changes.

Expected values: the oracle with the weights that the folder holds, in float64. It multiplies what
the operators round first, so the bounds are wider than float32's, and the check's own.
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from export.config import read_config
from export.convert import convert
from export.errors import CheckpointError
from export.folder_weights import FolderWeights
from export.manifest import CPU_MODEL_FILE, MODEL_FILE
from export.reference import Reference
from export.storage import STORAGES, Precision
from tests.checkpoints import make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import list_tree, read_manifest
from tests.export.graph_session import (
    TOLERANCE,
    FloatArray,
    GraphSession,
    difference,
    take_row,
)
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, SMALL_SHAPE, ModelFolders

_LOWER: Final = (Precision.FP16, Precision.INT8, Precision.INT4)
_IN_BLOCKS: Final = (Precision.INT8, Precision.INT4)
# Of logits up to 6. Measured: 0.006 in fp16, 0.09 in int8 and int4.
_TOLERANCES: Final = {Precision.FP16: 0.02, Precision.INT8: 0.25, Precision.INT4: 0.25}

lower = pytest.mark.parametrize("precision", _LOWER)
in_blocks = pytest.mark.parametrize("precision", _IN_BLOCKS)
either_head = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def make_odd(folders: ModelFolders, precision: Precision, *, tied: bool = True) -> pathlib.Path:
    return folders(ODD_SHAPE, precision=precision, tied=tied, n_inner=ODD_N_INNER)


def open_graph(
    folder: pathlib.Path, precision: Precision, *, name: str = MODEL_FILE, threads: int = 1
) -> GraphSession:
    dtype = STORAGES[precision].activations
    return GraphSession(folder, read_config(folder), name=name, dtype=dtype, threads=threads)


def draw_ids(seed: int, length: int) -> list[int]:
    draw = np.random.Generator(np.random.Philox(seed))
    ids: list[int] = draw.integers(0, ODD_SHAPE.vocab_size, length).tolist()
    return ids


# Parity.


@lower
@either_head
@pytest.mark.parametrize("cuts", [[], [1, 2, 20, 34]], ids=["whole", "pieces"])
def test_all_positions_agree_with_the_oracle(
    model_folders: ModelFolders, precision: Precision, tied: bool, cuts: Sequence[int]
) -> None:
    """Widths that no block divides, in one piece and in several."""
    folder = make_odd(model_folders, precision, tied=tied)
    onnx.checker.check_model(folder / MODEL_FILE)
    ids = draw_ids(1, ODD_SHAPE.n_positions)
    found = open_graph(folder, precision).run_text(ids, cuts)
    weights = FolderWeights(folder / "model.onnx")
    expected = Reference(read_config(folder), weights).logits(ids, range(len(ids)))
    assert found.dtype == np.float32
    assert difference(found, expected) <= _TOLERANCES[precision]


@in_blocks
@either_head
@pytest.mark.parametrize("name", [MODEL_FILE, CPU_MODEL_FILE])
def test_with_products_in_float32_nothing_but_float32_is_lost(
    model_folders: ModelFolders, tmp_path: pathlib.Path, precision: Precision, tied: bool, name: str
) -> None:
    """The bounds above would hide a wrong operand; at accuracy level 1 nothing is rounded."""
    folder = shutil.copytree(make_odd(model_folders, precision, tied=tied), tmp_path / "exact")
    model = onnx.load(folder / name, load_external_data=False)
    for attribute in (a for node in model.graph.node for a in node.attribute):
        if attribute.name == "accuracy_level":
            attribute.i = 1
    onnx.save_model(model, folder / name)
    config, ids = read_config(folder), draw_ids(2, ODD_SHAPE.n_positions)
    found = GraphSession(folder, config, name=name).run_text(ids, [9])
    expected = Reference(config, FolderWeights(folder / name)).logits(ids, range(len(ids)))
    assert difference(found, expected) <= TOLERANCE


# What a batch changes: nothing, bit for bit.


def decode_alone_and_together(graph: GraphSession, rows: int) -> tuple[FloatArray, FloatArray]:
    """Return the logits of ragged rows, each decoded by itself and all at once: [R, 2, V]."""
    texts = [draw_ids(10 + row, 3 * row % 32 + 3) for row in range(rows)]
    cache = graph.make_cache(rows=rows, capacity=40)
    for row, text in enumerate(texts):
        graph.run([text[:-2]], [0], take_row(cache, row))
    apart = {name: array.copy() for name, array in cache.items()}
    together, alone = [], []
    for step in (-2, -1):
        places = [len(text) + step for text in texts]
        tokens = [[text[step]] for text in texts]
        together.append(graph.run(tokens, places, cache)[:, 0])
        runs = [graph.run([tokens[r]], [places[r]], take_row(apart, r))[0] for r in range(rows)]
        alone.append(np.concatenate(runs))
    return np.stack(alone, 1), np.stack(together, 1)


@pytest.mark.parametrize(
    ("precision", "name"),
    [
        *((precision, MODEL_FILE) for precision in Precision),
        *((precision, CPU_MODEL_FILE) for precision in Precision if precision != Precision.FP16),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [2, 7, 32])
def test_neighbours_change_no_bit(
    model_folders: ModelFolders, precision: Precision, name: str, rows: int, threads: int
) -> None:
    """Rows of 1 to 32 tokens, alone and together, by one thread and two."""
    folder = make_odd(model_folders, precision)
    graph = open_graph(folder, precision, name=name, threads=threads)
    alone, together = decode_alone_and_together(graph, rows)
    assert alone.tobytes() == together.tobytes()


# The interface and the files.


def load_model(folder: pathlib.Path) -> onnx.ModelProto:
    return onnx.load(folder / "model.onnx", load_external_data=False)


@lower
def test_only_the_cache_of_fp16_is_float16(
    model_folders: ModelFolders, precision: Precision
) -> None:
    """Logits are float32 everywhere, so that what samples them knows no precision."""
    folder = make_odd(model_folders, precision)
    assert read_manifest(folder)["precision"] == precision.value
    graph = load_model(folder).graph
    values = (*graph.input, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    assert types["logits"] == TensorProto.FLOAT
    half = precision is Precision.FP16
    expected = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    assert {t for name, t in types.items() if name.endswith((".key", ".value"))} == {expected}


@pytest.mark.parametrize(
    ("precision", "bytes_per_weight"),
    [(Precision.FP16, 2.0), (Precision.INT8, 1.0625), (Precision.INT4, 0.625)],
)
def test_a_matrix_is_as_small_as_its_precision(
    model_folders: ModelFolders, precision: Precision, bytes_per_weight: float
) -> None:
    """A float32 scale for 32 numbers costs one bit each; biases and norms are not counted."""
    shape = dataclasses.replace(SMALL_SHAPE, n_embd=64)  # a whole block
    graph = load_model(model_folders(shape, precision=precision)).graph
    lengths = [
        int(entry.value)
        for tensor in graph.initializer
        if tensor.name.startswith("h.0.mlp.c_fc.weight")
        for entry in tensor.external_data
        if entry.key == "length"
    ]
    assert sum(lengths) == bytes_per_weight * 64 * 256


def test_weights_beyond_float16_are_refused_by_name(
    tmp_path: pathlib.Path, model_folders: ModelFolders
) -> None:
    """All of them at once; nothing is written."""
    source = write_checkpoint(tmp_path / "source", SMALL_SHAPE, tokenizer="filled")
    tensors = make_tensors(SMALL_SHAPE)
    tensors["transformer.h.0.ln_1.bias"][3] = 65520  # the first that rounds to infinity
    tensors["transformer.h.1.mlp.c_fc.weight"][0, 0] = -1e30
    tensors["transformer.wte.weight"][7, 0] = 1e5  # stays float32
    write_safetensors(source / "model.safetensors", tensors, dtype="float32")
    with pytest.raises(CheckpointError) as caught:
        convert(source, tmp_path / "out", precision=Precision.FP16)
    assert caught.value.faults == (
        "h.0.ln_1.bias holds numbers that fp16 cannot (beyond 65504)",
        "h.1.mlp.c_fc.weight holds numbers that fp16 cannot (beyond 65504)",
    )
    assert not any(path.startswith(("out", ".out")) for path in list_tree(tmp_path))
