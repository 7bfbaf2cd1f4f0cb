"""The contract with `export`: what a model folder says, and how a damaged one is told."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any, Final

import onnxruntime
import pytest

import export.graph
from gpt2cli import model_folder
from gpt2cli.errors import ModelError
from gpt2cli.model_folder import ModelFolder, ModelShape, read_model_folder
from tests.checkpoints import CheckpointShape
from tests.model_folders import ModelFolders

_SIZES: Final = ("n_layer", "n_head", "head_dim", "n_embd", "n_positions", "vocab_size")
_HOSTILE_NAMES: Final = (
    *("a\0b", "\ud83d", "a\nb", "", ".."),
    *("../config.json", "/etc/passwd", "a\\b"),
)
_SPECIAL: Final = ("id", "text", "begins", "ends", "silent")


@pytest.fixture
def folder(small: ModelFolder, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a model folder that a test may damage."""
    return pathlib.Path(shutil.copytree(small.path, tmp_path / "model"))


def change_manifest(folder: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite export.json after `change` has been applied to it."""
    path = folder / "export.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest), "utf-8")


def read_error(folder: pathlib.Path) -> str:
    """Return the one line with which the folder is refused."""
    with pytest.raises(ModelError) as caught:
        read_model_folder(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_graph_version_is_that_of_export() -> None:
    """Both packages state the version of the graph; they must say the same."""
    assert model_folder.GRAPH_VERSION == export.graph.GRAPH_VERSION


def test_what_export_wrote_is_read(model_folders: ModelFolders) -> None:
    """Sizes, special ids and the ids without a token are those of the checkpoint."""
    shape = CheckpointShape(n_layer=1, n_head=2, n_embd=16, n_positions=8, vocab_size=260)
    folder = read_model_folder(model_folders(shape, tokenizer="bytes"))
    assert folder.shape == ModelShape(1, 2, 8, 16, 8, 260)
    assert (folder.precision, folder.bos_token_id) == ("fp32", 256)
    assert folder.eos_token_ids == {256}
    assert folder.missing_ids == (range(257, 260),)
    assert folder.graph_file.is_file() and folder.tokenizer_file.is_file()
    assert folder.cpu_graph_file == folder.path / "model_cpu.onnx"
    assert folder.checked == ((onnxruntime.__version__, "CPUExecutionProvider"),)


def test_without_a_faster_graph_the_cpu_runs_the_one_of_all(model_folders: ModelFolders) -> None:
    """Heads of 12 numbers are no multiple of 8."""
    shape = CheckpointShape(n_layer=1, n_head=1, n_embd=12, n_positions=8, vocab_size=260)
    folder = read_model_folder(model_folders(shape, tokenizer="bytes"))
    assert folder.cpu_graph_file == folder.graph_file


def test_another_folder_is_refused(tmp_path: pathlib.Path) -> None:
    assert read_error(tmp_path) == f"{tmp_path} is not a model folder: it has no export.json"


def test_all_damaged_files_are_named_at_once(folder: pathlib.Path) -> None:
    """One line tells of every fault; of a file of another size both sizes."""
    (folder / "config.json").unlink()
    path = folder / "tokenizer.json"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    error = read_error(folder)
    assert "config.json is missing" in error
    assert f"tokenizer.json has {size - 1} bytes, expected {size}" in error
    assert error.endswith("; export again")


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]"])
def test_a_damaged_manifest_is_refused(folder: pathlib.Path, content: bytes) -> None:
    """export.json that is not a JSON object is damaged."""
    (folder / "export.json").write_bytes(content)
    assert "export.json is damaged" in read_error(folder)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        (None, "model", {"n_layer": 1}),
        (None, "model", None),
        (None, "model", dict.fromkeys(_SIZES, 1) | {"n_layer": "1"}),
        (None, "model", dict.fromkeys(_SIZES, 1) | {"n_layer": 0}),
        (None, "source", None),
        (None, "tokenizer", {}),
        (None, "tokenizer", 1),
        (None, "checked", [{}]),
        (None, "checked", {}),
        (None, "checked", [{"onnxruntime": 1, "provider": "x"}]),
        (None, "precision", "fp33"),
        (None, "precision", ["fp32"]),
        (None, "files", []),
        (None, "files", {"config.json": 1}),
        (None, "files", {"config.json": {"size": "1", "sha256": ""}}),
        (None, "files", {"config.json": {"size": 1}}),
        *((None, "files", {name: {"size": 1, "sha256": ""}}) for name in _HOSTILE_NAMES),
        ("model", "head_dim", 2**64),
        ("model", "n_layer", 2**63 - 1),
        ("model", "n_layer", 1001),
        ("model", "n_head", True),
        ("model", "n_embd", 1),
        ("tokenizer", "eos_token_ids", ["B"]),
        ("tokenizer", "eos_token_ids", 1),
        ("tokenizer", "eos_token_ids", [2**31]),
        ("tokenizer", "bos_token_id", -1),
        ("tokenizer", "start_ids", [1.0]),
        ("tokenizer", "missing_ids", [[0, 10**300]]),
        ("tokenizer", "missing_ids", [[1]]),
        ("tokenizer", "special_tokens", [{"id": 1}]),
        ("tokenizer", "special_tokens", [dict.fromkeys(_SPECIAL, "x")]),
        ("tokenizer", "special_tokens", [dict.fromkeys(_SPECIAL, 1)]),
        ("tokenizer", "special_tokens", [dict.fromkeys(_SPECIAL) | {"id": 1}]),
    ],
)
def test_a_value_that_export_never_writes_is_damage(
    folder: pathlib.Path, part: str | None, field: str, value: object
) -> None:
    """Told before anything is built by it: a loop over 2^63 layers would never end."""
    change_manifest(folder, lambda m: (m[part] if part else m).update({field: value}))
    error = read_error(folder)
    assert "export.json is damaged" in error
    assert error.endswith("; export again")
    assert len(error) < len(str(folder)) + 200


def test_a_file_that_is_a_pipe_is_not_waited_for(folder: pathlib.Path) -> None:
    """Also where its recorded size is a pipe's, which is 0."""
    (folder / "model.onnx").unlink()
    os.mkfifo(folder / "model.onnx")
    change_manifest(folder, lambda manifest: manifest["files"]["model.onnx"].update(size=0))
    assert "model.onnx is not a regular file" in read_error(folder)


def test_another_graph_version_is_told_by_number(folder: pathlib.Path) -> None:
    """A folder of another version says both numbers, even where its manifest looks different."""
    change_manifest(folder, dict.clear)
    change_manifest(folder, lambda manifest: manifest.update(graph_version=999))
    needed = model_folder.GRAPH_VERSION
    assert f"holds graph version 999, this gpt2 needs {needed}; export again" in read_error(folder)


def test_a_manifest_that_is_no_file_is_none(folder: pathlib.Path) -> None:
    """A folder named export.json makes no model folder."""
    (folder / "export.json").unlink()
    (folder / "export.json").mkdir()
    assert "is not a model folder" in read_error(folder)


def test_a_changed_byte_is_found_by_hash(folder: pathlib.Path) -> None:
    """Damage that keeps the size is found by reading all."""
    path = folder / "model.onnx.data"
    assert read_model_folder(folder).find_damage() is None
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    damage = read_model_folder(folder).find_damage()
    assert damage == "model.onnx.data is damaged: its sha256 is not the recorded one"


def test_a_file_that_went_away_is_damage(folder: pathlib.Path) -> None:
    """A file deleted after the start is told, not raised."""
    read = read_model_folder(folder)
    (folder / "model.onnx").unlink()
    assert read.find_damage() == "model.onnx cannot be read: No such file or directory"


def test_the_generation_config_is_the_models_own(small: ModelFolder, starter: ModelFolder) -> None:
    """Without generation_config.json nothing is set; the starter's has a temperature and top-k."""
    assert small.generation_config == {}
    own = starter.generation_config
    assert (own["temperature"], own["top_k"]) == (0.7, 40)
