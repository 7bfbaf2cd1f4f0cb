"""What a conversion refuses, and how: checkpoints with faults, and places that are taken."""

import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, Final

import pytest

from export.convert import convert
from export.errors import CheckpointError, OutputError
from tests.checkpoints import make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import (
    CHECKING,
    MODEL_FILES,
    SMALLEST_SHAPE,
    lay,
    list_tree,
    read_manifest,
)
from tests.model_folders import ModelFolders


def test_faults_of_weights_and_tokenizer_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """With a readable config, each weight's fault stands beside the tokenizer's."""
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE, tied=False, tokenizer=None)
    tensors = make_tensors(SMALLEST_SHAPE)
    write_safetensors(source / "model.safetensors", tensors)
    with pytest.raises(CheckpointError) as caught:
        convert(source, tmp_path / "out")
    assert caught.value.faults == (
        "lm_head.weight is missing",
        "tokenizer.json is missing, and so is vocab.json and merges.txt",
    )


@pytest.mark.parametrize("name", ["nowhere", "file", "n" * 300, "file/below"])
def test_a_source_that_is_no_folder_is_a_checkpoint_error(
    tmp_path: pathlib.Path, name: str
) -> None:
    """Nothing, a file, a name that no file system takes, a path through a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError):
        convert(tmp_path / name, tmp_path / "out")


_WORK: Final = {"out": None, "out/thesis.txt": b"mine"}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "tree",
    [
        {"out": b"mine"},
        _WORK,
        {"out": None, "out/config.json": b"{}", "out/model.safetensors": b""},
        {**_WORK, "out/export.json": b"{}"},
        {"target": None, "target/export.json": b"{}", "out": pathlib.Path("target")},
        {"out": pathlib.Path("nowhere")},
    ],
    ids=["file", "folder", "checkpoint", "model with more", "link to a model", "dangling link"],
)
def test_what_is_no_model_folder_is_never_replaced(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, tree: Mapping[str, Any], force: bool
) -> None:
    """Not even with force; it is told before any work, and nothing is touched."""
    lay(tmp_path, tree)
    before = list_tree(tmp_path)
    with pytest.raises(OutputError, match="choose another name"):
        convert(checkpoint, tmp_path / "out", force=force, report=pytest.fail)
    assert list_tree(tmp_path) == before


def test_a_model_folder_is_replaced_only_with_force(
    checkpoint: pathlib.Path, model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Without force it stays as it is and the way out is named; with force, damaged or not."""
    out = shutil.copytree(model_folders(), tmp_path / "out")
    before = list_tree(tmp_path)
    with pytest.raises(OutputError, match="use --force to replace it"):
        convert(checkpoint, out)
    assert list_tree(tmp_path) == before
    (out / "export.json").write_text("{")  # damage, and what an interrupted write left
    (out / "model.onnx.data").unlink()
    (out / ".export.json.123").write_text("")
    convert(checkpoint, out, force=True)
    assert read_manifest(out)["model"]["n_embd"] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_filled(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """OUT may be there if nothing is in it."""
    (tmp_path / "out").mkdir()
    convert(checkpoint, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == MODEL_FILES
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_appears_meanwhile_is_not_replaced(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """OUT is looked at again before it takes its name."""
    out = tmp_path / "out"

    def place_at_the_check(stage: str) -> None:
        if stage == CHECKING:
            lay(tmp_path, _WORK)

    with pytest.raises(OutputError, match="choose another name"):
        convert(checkpoint, out, force=True, report=place_at_the_check)
    assert list_tree(tmp_path) == _WORK


_FAULTS: Final = [f"fault {number}" for number in range(20)]


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        (["a is missing", "b is"], "a is missing; b is"),
        (_FAULTS, f"{'; '.join(_FAULTS[:8])}; and 12 more faults"),
        (["a\nb\x1b[31m\ud800 is none"], "a\\nb\\x1b[31m\\ud800 is none"),
        (["x" * 100_000], f"{'x' * 300}…"),
    ],
    ids=["two", "many", "unprintable", "long"],
)
def test_faults_are_one_printable_line_that_fits_on_a_screen(faults: list[str], text: str) -> None:
    """After the folder; of many the first ones, and all are kept."""
    error = CheckpointError(pathlib.Path("checkpoint"), faults)
    assert str(error) == f"checkpoint: {text}"
    assert len(error.faults) == len(faults)
