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


def test_a_precision_is_what_the_folder_then_has(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Wherever it will run; the full check has no news, and quiet says nothing."""
    options = ("--precision", "fp16", "--check", "-q")
    result = invoke("export", model_folders.checkpoint(), tmp_path / "model", *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert read_model_folder(tmp_path / "model").precision == "fp16"


def test_a_portable_folder_is_a_model_folder_too(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """It writes what the plain one writes, and is found whole."""
    out = tmp_path / "model"
    assert invoke("export", model_folders.checkpoint(), out, "--portable", "-q").exit_code == 0
    asked = ("-n", "5", "--seed", "1", "a")
    texts = [invoke("generate", "-m", folder, *asked).stdout for folder in (out, model_folders())]
    assert texts[0] == texts[1]
    assert read_model_folder(out).find_damage() is None
    (out / "onnx" / "model.onnx").write_bytes(b"")
    assert "model.onnx has 0 bytes" in error_line(invoke("generate", "-m", out, "a"))


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "SOURCE"),
        (["source"], 2, "OUT"),
        (["{folder}", "{out}"], 2, "already"),
        (["{checkpoint}", "{out}", "--revision", "main"], 2, "--revision"),
        (["/missing", "{out}", "--offline"], 1, "/missing"),
        (["nobody", "{out}", "--offline"], 1, "nobody"),
        (["{empty}", "{out}"], 1, "config.json"),
    ],
    ids=str,
)
def test_what_cannot_be_exported_is_one_line_that_names_it(
    model_folders: ModelFolders, tmp_path: pathlib.Path, arguments: list[str], code: int, told: str
) -> None:
    """A model folder is exported already, a revision is the hub's; nothing is left behind."""
    empty = tmp_path / "empty"
    empty.mkdir()
    paths = {"empty": empty, "out": tmp_path / "out"}
    paths |= {"folder": model_folders(), "checkpoint": model_folders.checkpoint()}
    result = invoke("export", *(argument.format(**paths) for argument in arguments))
    assert result.exit_code == code
    assert told in error_line(result)
    assert list(tmp_path.iterdir()) == [empty]


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
