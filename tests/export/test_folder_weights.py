"""A model folder that is read back: its weights, its description, and the check that runs again."""

import errno
import json
import math
import os
import pathlib
import shutil
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from export.check import recheck
from export.errors import CheckError
from export.folder_weights import FolderWeights, describe
from export.storage import Precision
from tests.checkpoints import make_tensors
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, SMALL_SHAPE, ModelFolders

_STEPS = {Precision.INT8: 1 / 128, Precision.INT4: 1 / 8}


@pytest.mark.parametrize(
    ("precision", "stored"), [(Precision.FP32, np.float32), (Precision.FP16, np.float16)]
)
def test_the_weights_of_a_folder_are_those_of_its_checkpoint(
    model_folders: ModelFolders, precision: Precision, stored: npt.DTypeLike
) -> None:
    """Bit for bit; in fp16 rounded to float16, all but wte, which stays as it is."""
    weights = FolderWeights(model_folders(precision=precision) / "model.onnx")
    for name, tensor in make_tensors(SMALL_SHAPE).items():
        expected = tensor if name.endswith("wte.weight") else tensor.astype(stored)
        found = weights.read(name.removeprefix("transformer."))
        np.testing.assert_array_equal(found, expected.astype(np.float32), strict=True)


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


def test_config_parameters_and_the_graphs_table_are_told(model_folders: ModelFolders) -> None:
    """The parameters are counted as the checkpoint has them, the tied head once."""
    found = describe(model_folders())
    assert found["config"] == json.loads((model_folders() / "config.json").read_bytes())
    tensors = make_tensors(SMALL_SHAPE)
    assert found["parameters"] == sum(math.prod(tensor.shape) for tensor in tensors.values())
    assert found["inputs"][:4] == [
        ["input_ids", "int64", ["B", "S"]],
        ["position_ids", "int64", ["B", "S"]],
        ["logit_positions", "int64", ["B", "K"]],
        ["past_key_values.0.key", "float32", ["B", 2, "M", 16]],
    ]
    assert found["outputs"][:2] == [
        ["logits", "float32", ["B", "K", 289]],
        ["present.0.key", "float32", ["B", 2, "M", 16]],
    ]
    assert (len(found["inputs"]), len(found["outputs"])) == (3 + 4, 1 + 4)


def test_a_folder_without_a_graph_is_an_os_error(tmp_path: pathlib.Path) -> None:
    """The caller says what to do about it."""
    with pytest.raises(OSError, match=r"model\.onnx"):
        describe(tmp_path)


_CPU = "CPUExecutionProvider"


@pytest.fixture
def folder(model_folders: ModelFolders, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a model folder of the test's own that no onnxruntime has passed."""
    copy = shutil.copytree(model_folders(), tmp_path / "model")
    manifest = json.loads((copy / "export.json").read_bytes())
    (copy / "export.json").write_text(json.dumps({**manifest, "checked": []}))
    return copy


def read_checked(folder: pathlib.Path) -> list[dict[str, Any]]:
    checked: list[dict[str, Any]] = json.loads((folder / "export.json").read_bytes())["checked"]
    return checked


def test_a_right_graph_is_noted_with_version_and_provider(folder: pathlib.Path) -> None:
    """One more entry in export.json, and no other file."""
    names = {path.name for path in folder.iterdir()}
    recheck(folder, _CPU)
    assert read_checked(folder) == [{"onnxruntime": onnxruntime.__version__, "provider": _CPU}]
    assert {path.name for path in folder.iterdir()} == names


def test_a_wrong_graph_is_an_error_and_not_noted(
    folder: pathlib.Path, model_folders: ModelFolders
) -> None:
    """A graph that scales its attention otherwise than config.json says does not pass."""
    other = model_folders(config={"scale_attn_weights": False})
    shutil.copyfile(other / "model_cpu.onnx", folder / "model_cpu.onnx")
    with pytest.raises(CheckError, match="the exported graph is wrong"):
        recheck(folder, _CPU)
    assert read_checked(folder) == []


def test_nan_in_the_weights_is_an_error(folder: pathlib.Path) -> None:
    """Damage that graph and oracle share still gives no finite logits."""
    size = (folder / "model.onnx.data").stat().st_size
    np.full(size // 4, np.nan, "<f4").tofile(folder / "model.onnx.data")
    with pytest.raises(CheckError, match="not finite"):
        recheck(folder, _CPU)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data"])
def test_a_damaged_file_is_a_check_error(folder: pathlib.Path, name: str) -> None:
    """Neither protobuf's nor numpy's exception gets out."""
    (folder / name).write_bytes(b"\xff" * 100)
    with pytest.raises(CheckError, match="is damaged"):
        recheck(folder, _CPU)


def test_a_folder_that_cannot_be_written_keeps_its_record(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check passes; nothing is noted, nothing is left, nothing is raised."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def refuse(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))

    monkeypatch.setattr(pathlib.Path, "replace", refuse)
    recheck(folder, _CPU)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
