"""The check of graphs whose weights lie in blocks: the rounding of products hides no mistake."""

import pathlib

import numpy as np
import onnx
import pytest

from export.check import check_short
from export.config import read_config
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.graph_files import find_graphs
from export.precision import Precision
from tests.checkpoints import make_tensors
from tests.export.graph_session import FloatArray
from tests.export.test_check import Edit, find_node, write_edited
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, ModelFolders

in_blocks = pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])


def leave_out_a_bias(model: onnx.ModelProto) -> None:
    del find_node(model, "h.1.mlp.c_proj").input[3:]


def take_another_layers_weight(model: onnx.ModelProto) -> None:
    find_node(model, "h.1.mlp.c_fc").input[1] = "h.0.mlp.c_fc.weight.blocks"


def take_another_layers_scales(model: onnx.ModelProto) -> None:
    find_node(model, "h.1.attn.c_attn").input[2] = "h.0.attn.c_attn.weight.scales"


def gather_by_position(model: onnx.ModelProto) -> None:
    find_node(model, "wte").input[1] = "position_ids"


def swap_keys_and_values(model: onnx.ModelProto) -> None:
    split = find_node(model, "h.1.attn.q")
    split.output[:] = [split.output[0], split.output[2], split.output[1]]


@in_blocks
@pytest.mark.parametrize(
    "edit",
    [
        leave_out_a_bias,
        take_another_layers_weight,
        take_another_layers_scales,
        gather_by_position,
        swap_keys_and_values,
    ],
    ids=lambda edit: edit.__name__,
)
def test_a_wrong_graph_is_caught(
    model_folders: ModelFolders, tmp_path: pathlib.Path, precision: Precision, edit: Edit
) -> None:
    """Though the arithmetic is allowed to round, a wrong operand shows."""
    folder = model_folders(ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER)
    graph = write_edited(folder, tmp_path / "model", edit)
    weights = FolderWeights(folder / "model.onnx")
    with pytest.raises(CheckError, match="the exported graph is wrong at "):
        check_short([graph], read_config(folder), weights, precision=precision)


@in_blocks
@pytest.mark.parametrize(
    "name",
    [name.removeprefix("transformer.") for name in make_tensors(ODD_SHAPE)],
)
def test_one_wrong_value_of_any_weight_is_caught(
    model_folders: ModelFolders, precision: Precision, name: str
) -> None:
    """One number of the oracle's is off by 1: less than the rounding of products would hide."""
    folder = model_folders(ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER)
    config, stored = read_config(folder), FolderWeights(folder / "model.onnx")

    class Changed:
        def read(self, asked: str) -> FloatArray:
            array = np.array(stored.read(asked))
            if asked == name:
                array[(2, 5) if name == "wpe.weight" else (-1,) * array.ndim] += 1
            return array

    with pytest.raises(CheckError, match="the exported graph is wrong at "):
        check_short(find_graphs(folder), config, Changed(), precision=precision)
