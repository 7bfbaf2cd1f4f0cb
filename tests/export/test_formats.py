"""Every kind of weights file converts to the same bytes as model.safetensors in float32."""

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from export.checkpoint import open_checkpoint
from export.convert import convert
from export.safetensors_file import DTYPES
from tests.checkpoints import FloatArray, make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.torch_files import DATA_FOLDER, write_state_dict

Write = Callable[..., None]

_SUFFIXES: Mapping[Write, str] = {write_safetensors: "safetensors", write_state_dict: "bin"}
_STEMS: Mapping[Write, str] = {write_safetensors: "model", write_state_dict: "pytorch_model"}

both_formats = pytest.mark.parametrize("write", [write_safetensors, write_state_dict])


def convert_weights(
    folder: pathlib.Path, place: Callable[[pathlib.Path], object], *, tied: bool = True
) -> list[bytes]:
    """Return the graph and the data of a checkpoint whose weights `place` puts there."""
    source = write_checkpoint(folder / "source", SMALLEST_SHAPE, tied=tied)
    (source / "model.safetensors").unlink()
    place(source)
    convert(source, folder / "out")
    files = [(folder / "out" / name).read_bytes() for name in ("model.onnx", "model.onnx.data")]
    shutil.rmtree(folder)
    return files


def convert_plain(
    folder: pathlib.Path, tensors: Mapping[str, FloatArray], *, tied: bool = True
) -> list[bytes]:
    """Return what the same weights give as model.safetensors in float32."""
    return convert_weights(
        folder,
        lambda source: write_safetensors(source / "model.safetensors", tensors),
        tied=tied,
    )


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "gpt2-bare",
        "gpt2-nested",
        "gpt2-protocol4",
        "gpt2-no-checksums",
        "gpt2-legacy",
        "gpt2-legacy-protocol4",
    ],
)
def test_what_torch_wrote_converts_to_the_same_bytes(tmp_path: pathlib.Path, name: str) -> None:
    """With mask buffers, a copied head, either style of keys, before 1.6 (make_torch_files.py)."""
    stored = DATA_FOLDER / f"{name}.bin"
    found = convert_weights(
        tmp_path / "torch", lambda source: shutil.copyfile(stored, source / "pytorch_model.bin")
    )
    assert found == convert_plain(tmp_path / "plain", make_tensors(SMALLEST_SHAPE))


@both_formats
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64"])
def test_every_dtype_converts_to_the_bytes_of_its_values_in_float32(
    tmp_path: pathlib.Path, write: Write, dtype: str
) -> None:
    """Rounded to the dtype once, then widened, or narrowed."""
    tensors = make_tensors(SMALLEST_SHAPE)
    rounded = {n: t.astype(DTYPES[dtype]).astype(np.float32) for n, t in tensors.items()}
    names = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
    stored_as = names[dtype] if write is write_safetensors else dtype
    file = f"{_STEMS[write]}.{_SUFFIXES[write]}"
    found = convert_weights(
        tmp_path / "stored", lambda source: write(source / file, tensors, dtype=stored_as)
    )
    assert found == convert_plain(tmp_path / "plain", rounded)


@both_formats
@pytest.mark.parametrize("tied", [True, False])
def test_shards_convert_to_the_same_bytes(tmp_path: pathlib.Path, write: Write, tied: bool) -> None:
    """Three shards under an index, with a head of its own or without."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=tied)
    found = convert_weights(
        tmp_path / "shards", lambda source: write_shards(source, tensors, write), tied=tied
    )
    assert found == convert_plain(tmp_path / "plain", tensors, tied=tied)


def write_shards(source: pathlib.Path, tensors: Mapping[str, Any], write: Write) -> None:
    """Write weights round robin into three files, named as transformers names them."""
    weight_map: dict[str, str] = {}
    for number in range(3):
        shard = f"{_STEMS[write]}-0000{number + 1}-of-00003.{_SUFFIXES[write]}"
        part = dict(list(tensors.items())[number::3])
        write(source / shard, part)
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {}, "weight_map": weight_map}
    name = f"{_STEMS[write]}.{_SUFFIXES[write]}.index.json"
    (source / name).write_text(json.dumps(index), encoding="utf-8")


@both_formats
def test_names_buffers_and_a_copied_head_make_no_difference(
    tmp_path: pathlib.Path, write: Write
) -> None:
    """Without prefix, with mask buffers and with a copy of the tied head: the same two files."""
    tensors = make_tensors(SMALLEST_SHAPE)
    other = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    other["lm_head.weight"] = other["wte.weight"]
    other["h.0.attn.bias"] = np.ones((1, 1, 3, 3), np.float32)
    other["h.0.attn.masked_bias"] = np.ones((), np.float32)
    file = f"{_STEMS[write]}.{_SUFFIXES[write]}"
    found = convert_weights(tmp_path / "other", lambda source: write(source / file, other))
    assert found == convert_plain(tmp_path / "plain", tensors)


@both_formats
def test_the_files_are_closed_when_the_checkpoint_is(tmp_path: pathlib.Path, write: Write) -> None:
    """On Windows an open file could not be replaced; a left one would be a ResourceWarning."""
    source = write_checkpoint(tmp_path, SMALLEST_SHAPE)
    (source / "model.safetensors").unlink()
    write_shards(source, make_tensors(SMALLEST_SHAPE), write)
    with open_checkpoint(source) as checkpoint:
        checkpoint.read("wte.weight")
    with pytest.raises(ValueError, match="closed file"):
        checkpoint.read("wte.weight")
