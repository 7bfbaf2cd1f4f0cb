"""What a conversion refuses, and how: checkpoints with faults, and places that are taken."""

import pathlib
import shutil
from collections.abc import Callable

import pytest

from export.convert import convert
from export.errors import CheckpointError, OutputError
from tests.checkpoints import make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import CHECKING, MODEL_FILES, SMALLEST_SHAPE, list_tree, read_manifest
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


def _place_file(out: pathlib.Path) -> None:
    out.write_text("mine")


def _place_folder(out: pathlib.Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("mine")


def _place_checkpoint(out: pathlib.Path) -> None:
    write_checkpoint(out, SMALLEST_SHAPE)


def _place_model_with_more(out: pathlib.Path) -> None:
    out.mkdir()
    (out / "export.json").write_text("{}")
    (out / "thesis.txt").write_text("mine")


def _place_link_to_model(out: pathlib.Path) -> None:
    target = out.with_name("target")
    target.mkdir()
    (target / "export.json").write_text("{}")
    out.symlink_to(target)


def _place_dangling_link(out: pathlib.Path) -> None:
    out.symlink_to("nowhere")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        _place_file,
        _place_folder,
        _place_checkpoint,
        _place_model_with_more,
        _place_link_to_model,
        _place_dangling_link,
    ],
)
def test_what_is_no_model_folder_is_never_replaced(
    checkpoint: pathlib.Path,
    tmp_path: pathlib.Path,
    place: Callable[[pathlib.Path], None],
    force: bool,
) -> None:
    """Not even with force; it is told before any work, and nothing is touched."""
    place(tmp_path / "out")
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
            _place_folder(out)

    with pytest.raises(OutputError, match="choose another name"):
        convert(checkpoint, out, force=True, report=place_at_the_check)
    assert list_tree(tmp_path) == {"out": None, "out/thesis.txt": b"mine"}


_FOLDER = pathlib.Path("checkpoint")


def test_the_text_names_the_folder_and_joins_the_faults() -> None:
    """Folder first, then each fault."""
    assert str(CheckpointError(_FOLDER, ["a is missing", "b is"])) == (
        "checkpoint: a is missing; b is"
    )


def test_of_many_faults_the_first_are_shown_and_all_are_kept() -> None:
    """Eight of twenty in the text, twenty in `faults`."""
    error = CheckpointError(_FOLDER, [f"fault {number}" for number in range(20)])
    assert str(error).endswith("; fault 7; and 12 more faults")
    assert len(error.faults) == 20


def test_a_name_out_of_a_file_cannot_reach_the_terminal_raw() -> None:
    """Newlines, escape sequences and lone surrogates are made visible."""
    error = CheckpointError(_FOLDER, ["a\nb\x1b[31m\ud800 is not a GPT-2 weight"])
    assert str(error) == "checkpoint: a\\nb\\x1b[31m\\ud800 is not a GPT-2 weight"


def test_a_long_fault_is_cut() -> None:
    """A name of a megabyte does not fill the screen."""
    assert len(str(CheckpointError(_FOLDER, ["x" * 1_000_000]))) < 400
