"""What a conversion leaves behind when it is stopped: nothing, or the old folder as it was."""

import contextlib
import errno
import os
import pathlib
import resource
import shutil
from collections.abc import Iterator

import numpy as np
import pytest

from export import whole
from export.convert import convert
from export.errors import CheckError, CheckpointError, OutputError
from tests.checkpoints import write_checkpoint
from tests.export.conversions import CHECKING, SMALLEST_SHAPE, STAGES, list_tree
from tests.model_folders import ModelFolders


def test_a_bad_checkpoint_leaves_nothing(tmp_path: pathlib.Path) -> None:
    """A fault is found before anything is written, parents included."""
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE)
    (source / "model.safetensors").write_bytes(b"")
    before = list_tree(tmp_path)
    with pytest.raises(CheckpointError):
        convert(source, tmp_path / "parent" / "out")
    assert list_tree(tmp_path) == before


@pytest.mark.parametrize("full_check", [False, True])
def test_a_weight_that_is_written_wrong_fails_the_check_and_leaves_nothing(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, full_check: bool
) -> None:
    """One damaged value in the data file, as a bad disk leaves it: no folder appears."""

    def damage(stage: str) -> None:
        if stage == CHECKING:
            [path] = tmp_path.glob(".out.*.partial/model.onnx.data")
            with path.open("r+b") as file:
                file.write(np.float32(7).tobytes())

    with pytest.raises(CheckError, match="the exported graph is wrong at"):
        convert(checkpoint, tmp_path / "out", full_check=full_check, report=damage)
    assert list_tree(tmp_path) == {}


@pytest.mark.parametrize(
    "stage", [*STAGES, "checking all positions by model.onnx, in one piece and cut"]
)
def test_an_interrupt_leaves_nothing(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, stage: str
) -> None:
    """Ctrl-C at any stage."""

    def interrupt(name: str) -> None:
        if name == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(checkpoint, tmp_path / "out", full_check=True, report=interrupt)
    assert list_tree(tmp_path) == {}


# Disks and places that cannot be written.


def test_a_full_disk_is_one_line_and_leaves_nothing(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems tell of a full disk only when the data is flushed."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError) as caught:
        convert(checkpoint, tmp_path / "out")
    assert str(caught.value) == (
        f"cannot write {tmp_path / 'out'}: No space left on device (the disk is full)"
    )
    assert list_tree(tmp_path) == {}


@contextlib.contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Let the operating system refuse to write more than `size` bytes to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [10, 5000, 60_000])
def test_a_write_that_fails_in_the_middle_is_one_line_and_leaves_nothing(
    model_folders: ModelFolders, tmp_path: pathlib.Path, size: int
) -> None:
    """Whichever file meets the limit first: the graph, the weights or a copy."""
    source = model_folders.checkpoint()
    with files_limited_to(size), pytest.raises(OutputError) as caught:
        convert(source, tmp_path / "out")
    assert "File too large" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list_tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["file/out", "n" * 300, "file/below/out"])
def test_a_place_that_cannot_be_is_one_line(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    """Below a file, or under a name that no file system takes."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write ") as caught:
        convert(checkpoint, tmp_path / name)
    assert "\n" not in str(caught.value)
    assert list_tree(tmp_path) == {"file": b""}


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchanged", "moved aside"])
def test_a_rename_that_fails_leaves_the_old_folder(
    checkpoint: pathlib.Path,
    model_folders: ModelFolders,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    exchanges: bool,
) -> None:
    """With force; where names cannot be exchanged it is brought back from where it was moved."""
    out = shutil.copytree(model_folders(), tmp_path / "out")
    before = list_tree(tmp_path)
    rename = pathlib.Path.rename

    def fail(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        if path.suffix == ".partial":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", fail)
    monkeypatch.setattr(whole, "_exchange", fail if exchanges else lambda one, other: False)
    with pytest.raises(OutputError, match="Permission denied"):
        convert(checkpoint, out, force=True)
    assert list_tree(tmp_path) == before
