"""The weights as they come back out of a model folder."""

import pathlib
import shutil

import numpy as np
import pytest

from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.storage import Precision
from tests.checkpoints import make_tensors
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, SMALL_SHAPE, ModelFolders

_STEPS = {Precision.INT8: 1 / 128, Precision.INT4: 1 / 8}


def test_the_weights_of_an_fp32_folder_are_those_of_its_checkpoint(
    model_folders: ModelFolders,
) -> None:
    """Every weight comes out of the data file bit for bit."""
    weights = FolderWeights(model_folders() / "model.onnx")
    for name, tensor in make_tensors(SMALL_SHAPE).items():
        assert weights.read(name.removeprefix("transformer.")).tobytes() == tensor.tobytes()


def test_those_of_an_fp16_folder_are_rounded_to_float16(model_folders: ModelFolders) -> None:
    """All but wte, which stays as it is."""
    weights = FolderWeights(model_folders(precision=Precision.FP16) / "model.onnx")
    for name, tensor in make_tensors(SMALL_SHAPE).items():
        found = weights.read(name.removeprefix("transformer."))
        expected = tensor if name.endswith("wte.weight") else tensor.astype(np.float16)
        assert found.dtype == np.float32
        assert np.array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])
@pytest.mark.parametrize("tied", [True, False])
def test_numbers_in_blocks_come_back_within_a_step(
    model_folders: ModelFolders, precision: Precision, tied: bool
) -> None:
    """In their published shapes, padding cut off; a step is told by the largest number."""
    folder = model_folders(ODD_SHAPE, precision=precision, tied=tied, n_inner=ODD_N_INNER)
    weights = FolderWeights(folder / "model.onnx")
    for name, tensor in make_tensors(ODD_SHAPE, tied=tied, n_inner=ODD_N_INNER).items():
        found = weights.read(name.removeprefix("transformer."))
        assert found.shape == tensor.shape
        step = _STEPS[precision] if ".c_" in name else _STEPS[Precision.INT8]
        limit = step * float(np.abs(tensor).max())
        assert float(np.abs(found - tensor).max()) <= limit * 1.0001


@pytest.mark.parametrize("name", ["lm_head.weight", "h.9.mlp.c_fc.weight", "wte.bias"])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_weight_that_the_graph_lacks_is_a_check_error(
    model_folders: ModelFolders, name: str, precision: Precision
) -> None:
    """The folder is named."""
    weights = FolderWeights(model_folders(precision=precision) / "model.onnx")
    with pytest.raises(CheckError, match=rf"is damaged: {name} cannot be read"):
        weights.read(name)


def test_a_data_file_that_ends_early_is_a_check_error(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Nothing is mapped beyond its end."""
    folder = shutil.copytree(model_folders(precision=Precision.INT8), tmp_path / "model")
    (folder / "model.onnx.data").write_bytes(b"\0" * 100)
    with pytest.raises(CheckError, match="cannot be read"):
        FolderWeights(folder / "model.onnx").read("wte.weight")
