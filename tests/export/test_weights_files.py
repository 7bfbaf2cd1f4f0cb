"""Which files of a folder hold its weights, and weights that are spread over several."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from export.checkpoint import WEIGHTS_FILES, open_checkpoint
from export.config import read_config
from export.errors import CheckpointError
from tests.checkpoints import make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.weights_files import write_weights

_INDEX: Final = "model.safetensors.index.json"
_SHARDS: Final = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a checkpoint folder without weights."""
    folder = write_checkpoint(tmp_path / "checkpoint", SMALLEST_SHAPE, tokenizer=None)
    (folder / "model.safetensors").unlink()
    return folder


def faults_of(folder: pathlib.Path) -> list[str]:
    """Return every fault of the weights, those of opening them included."""
    try:
        with open_checkpoint(folder) as checkpoint:
            return checkpoint.find_faults(read_config(folder))
    except CheckpointError as error:
        assert "\n" not in str(error)
        return list(error.faults)


# Which file.


def test_safetensors_come_before_torchs_files_and_whole_ones_before_shards(
    folder: pathlib.Path,
) -> None:
    """Of all four kinds in one folder the first counts; without it, the next."""
    names = ["model.safetensors", _INDEX, "pytorch_model.bin", "pytorch_model.bin.index.json"]
    assert names == list(WEIGHTS_FILES)
    for name in reversed(names):
        bias = np.full(4, names.index(name), np.float32)
        write_weights(folder, name, make_tensors(SMALLEST_SHAPE) | {"transformer.ln_f.bias": bias})
        with open_checkpoint(folder) as checkpoint:
            assert checkpoint.read("ln_f.bias").tolist() == [names.index(name)] * 4


def test_no_weights_are_one_fault_that_names_those_of_an_adapter(folder: pathlib.Path) -> None:
    """The user sees that they were not overlooked."""
    missing = "model.safetensors is missing, and so is pytorch_model.bin"
    assert faults_of(folder) == [missing]
    (folder / "adapter_model.safetensors").touch()
    adapter = "adapter_model.safetensors is an adapter: name the model that it was made for"
    assert faults_of(folder) == [f"{missing}; {adapter}"]


_NO_FILE: Final = "cannot be read: it is a folder, pipe or device, expected a file"
_POINTER: Final = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n"


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (pathlib.Path.mkdir, _NO_FILE),
        (os.mkfifo, _NO_FILE),
        (lambda path: path.symlink_to("/dev/zero"), _NO_FILE),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "is a link to a file that is missing"),
        (lambda path: path.write_text(_POINTER), "cannot be read: it is a Git LFS pointer to the"),
    ],
    ids=["folder", "pipe", "device", "loop", "dangling", "pointer"],
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", _SHARDS[0]])
def test_what_is_no_file_is_refused_unopened(
    folder: pathlib.Path, name: str, make: Callable[[pathlib.Path], object], fault: str
) -> None:
    """Whole or a shard; it is not passed over for another kind of file, which is there too."""
    write_weights(folder, "pytorch_model.bin.index.json", make_tensors(SMALLEST_SHAPE))
    if name == _SHARDS[0]:
        write_shards(folder)
        (folder / name).unlink()
    make(folder / name)
    [told] = faults_of(folder)
    assert told.startswith(f"{name} {fault}")


def test_a_damaged_storage_is_a_fault_of_its_weight(folder: pathlib.Path) -> None:
    """The other weights are looked at all the same."""
    tensors = make_tensors(SMALLEST_SHAPE)
    del tensors["transformer.wpe.weight"]
    path = folder / "pytorch_model.bin"
    write_weights(folder, path.name, tensors)
    bias = tensors["transformer.ln_f.bias"].tobytes()
    path.write_bytes(path.read_bytes().replace(bias, bytes(len(bias))))
    missing, damaged = faults_of(folder)
    assert missing == "wpe.weight is missing"
    assert damaged.startswith("ln_f.bias cannot be read: it is damaged: Bad CRC-32")


# Shards.


def write_shards(folder: pathlib.Path) -> dict[str, Any]:
    """Write the weights into two shards, and return the index, written too."""
    return write_weights(folder, _INDEX, make_tensors(SMALLEST_SHAPE))


def write_index(folder: pathlib.Path, index: object) -> None:
    (folder / _INDEX).write_text(json.dumps(index))


def test_every_missing_and_damaged_shard_is_told(folder: pathlib.Path) -> None:
    """Two faults of one look."""
    write_shards(folder)
    (folder / _SHARDS[0]).unlink()
    (folder / _SHARDS[1]).write_bytes(b"")
    missing, damaged = faults_of(folder)
    assert missing == f"{_SHARDS[0]} is missing"
    assert damaged.startswith(f"{_SHARDS[1]} cannot be read: ")


def test_a_weight_that_its_shard_lacks_is_told(folder: pathlib.Path) -> None:
    """The index sends ln_f.bias to the other shard."""
    index = write_shards(folder)
    [other] = {*_SHARDS} - {index["weight_map"]["transformer.ln_f.bias"]}
    index["weight_map"]["transformer.ln_f.bias"] = other
    write_index(folder, index)
    assert faults_of(folder) == [
        f"transformer.ln_f.bias is not in {other}, though {_INDEX} says so"
    ]


def test_a_tensor_in_two_shards_is_told(folder: pathlib.Path) -> None:
    """Which of the two counts is anyone's guess."""
    write_shards(folder)
    write_safetensors(folder / _SHARDS[1], make_tensors(SMALLEST_SHAPE))
    faults = faults_of(folder)
    assert f"transformer.wte.weight lies in {_SHARDS[1]} and in another shard" in faults
    assert len(faults) == 8  # all of the first shard's


@pytest.mark.parametrize(
    "shard",
    ["../x", "/etc/passwd", "a/b", "..\\x", "C:x", "x:stream", "..", ".", "", "x\0y"],
)
def test_a_shard_outside_the_folder_is_refused_unopened(folder: pathlib.Path, shard: str) -> None:
    """Up, absolute, below, in Windows' words, no file's name at all."""
    write_safetensors(folder.parent / "x", make_tensors(SMALLEST_SHAPE))
    write_index(folder, {"weight_map": {"transformer.wte.weight": shard}})
    [fault] = faults_of(folder)
    assert fault.startswith(f"{_INDEX} names the shard ")
    assert fault.endswith("which is not a plain file name")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{}", "has no weight_map of files"),
        ('{"weight_map": []}', "has no weight_map of files"),
        ('{"weight_map": {"wte.weight": 1}}', "has no weight_map of files"),
        ('{"weight_map": {}}', "lists no weights"),
    ],
)
def test_a_damaged_index_is_one_line(folder: pathlib.Path, content: str, fault: str) -> None:
    """No table, a shard that is a number, nothing."""
    (folder / _INDEX).write_text(content)
    assert [told.startswith(f"{_INDEX} {fault}") for told in faults_of(folder)] == [True]
