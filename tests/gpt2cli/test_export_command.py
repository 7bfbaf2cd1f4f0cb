"""Claims about `gpt2 export`."""

import pathlib

import numpy as np
import pytest

from gpt2cli.model_folder import read_model_folder
from tests.checkpoints import CheckpointShape, make_tensors, write_checkpoint, write_safetensors
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders


def test_a_checkpoint_becomes_a_model_folder_and_is_told(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """One note, and nothing on stdout."""
    out = tmp_path / "model"

    result = invoke("export", model_folders.checkpoint(), out)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"gpt2: wrote {out}\n"
    assert read_model_folder(out).shape.n_positions == 33
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("command", ["export", "generate"])
def test_weights_that_are_left_out_are_told_in_one_line(
    tmp_path: pathlib.Path, command: str
) -> None:
    """Where a checkpoint is converted, and where one is on its first use."""
    shape = CheckpointShape(n_layer=1, n_head=1, n_embd=8, n_positions=8, vocab_size=257)
    source = write_checkpoint(tmp_path / "source", shape)
    tensors = {**make_tensors(shape), "v_head.summary.bias": np.ones(1, np.float32)}
    write_safetensors(source / "model.safetensors", tensors)

    if command == "export":
        result = invoke("export", source, tmp_path / "out")
    else:
        result = invoke("generate", "-m", source, "a", "-n", "1")

    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "v_head" in line] == [
        "gpt2: v_head.* was left out; the language model does not use it"
    ]


@pytest.mark.parametrize("precision", ["fp16", "int8", "int4"])
def test_a_precision_is_what_the_folder_then_has(
    model_folders: ModelFolders, tmp_path: pathlib.Path, precision: str
) -> None:
    """Any can be written, wherever it will run."""
    out = tmp_path / "model"

    result = invoke("export", model_folders.checkpoint(), out, "--precision", precision)

    assert result.exit_code == 0
    assert read_model_folder(out).precision == precision


def test_quiet_and_check_say_nothing_where_all_is_well(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """The full check has no news."""
    result = invoke("export", model_folders.checkpoint(), tmp_path / "model", "--check", "-q")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_model_folder_is_no_source(model_folders: ModelFolders, tmp_path: pathlib.Path) -> None:
    """It is exported already: a usage error."""
    result = invoke("export", model_folders(), tmp_path / "model")

    assert result.exit_code == 2
    assert "already" in error_line(result)


@pytest.mark.parametrize("source", ["/missing", "nobody"])
def test_an_unknown_source_is_an_error_of_one_line(tmp_path: pathlib.Path, source: str) -> None:
    """And nothing is left behind."""
    result = invoke("export", source, tmp_path / "model", "--offline")

    assert result.exit_code == 1
    assert source in error_line(result)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_checkpoint_is_an_error_that_says_what_it_lacks(
    tmp_path: pathlib.Path,
) -> None:
    """An empty folder has no config.json."""
    source = tmp_path / "empty"
    source.mkdir()

    result = invoke("export", source, tmp_path / "model")

    assert result.exit_code == 1
    assert "config.json" in error_line(result)


def test_something_else_is_replaced_not_even_by_force(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """A folder of the user's own work is left as it is."""
    out = tmp_path / "work"
    out.mkdir()
    (out / "novel.txt").write_text("Once")

    result = invoke("export", model_folders.checkpoint(), out, "--force")

    assert result.exit_code == 1
    assert "work" in error_line(result)
    assert [path.name for path in tmp_path.rglob("*")] == ["work", "novel.txt"]


@pytest.mark.parametrize("arguments", [[], ["source"]], ids=["none", "one"])
def test_both_arguments_are_needed(arguments: list[str]) -> None:
    """The missing one is named."""
    result = invoke("export", *arguments)

    assert result.exit_code == 2
    assert ("OUT" if arguments else "SOURCE") in error_line(result)


def test_a_revision_belongs_to_the_hub(model_folders: ModelFolders, tmp_path: pathlib.Path) -> None:
    """A folder has none: a usage error."""
    result = invoke("export", model_folders.checkpoint(), tmp_path / "m", "--revision", "main")

    assert result.exit_code == 2
    assert "--revision" in error_line(result)
