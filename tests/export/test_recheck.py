"""The check that runs again where another onnxruntime or provider is to run a model folder."""

import errno
import json
import os
import pathlib
import shutil
from typing import Any

import numpy as np
import onnxruntime
import pytest

from export.check import recheck
from export.errors import CheckError
from tests.model_folders import ModelFolders

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
