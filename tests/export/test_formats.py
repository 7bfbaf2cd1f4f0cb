"""Every kind of weights file converts to the same bytes as model.safetensors in float32."""

import pathlib
import shutil
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from export.checkpoint import WEIGHTS_FILES, open_checkpoint
from export.convert import convert
from export.safetensors_file import DTYPES
from tests.checkpoints import CheckpointDtype, FloatArray, make_tensors, write_checkpoint
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.torch_files import DATA_FOLDER
from tests.export.weights_files import write_weights

both_formats = pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
every_file = pytest.mark.parametrize("file", WEIGHTS_FILES)


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


def assert_same(
    folder: pathlib.Path,
    place: Callable[[pathlib.Path], object],
    tensors: Mapping[str, FloatArray],
    *,
    tied: bool = True,
) -> None:
    """Assert that what `place` writes converts as these tensors do in float32."""
    expected = convert_weights(
        folder / "plain", lambda to: write_weights(to, "model.safetensors", tensors), tied=tied
    )
    assert convert_weights(folder / "other", place, tied=tied) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "gpt2-bare", "gpt2-nested", "gpt2-protocol4", "gpt2-no-checksums"),
        *("gpt2-legacy", "gpt2-legacy-protocol4"),
    ],
)
def test_what_torch_wrote_converts_to_the_same_bytes(tmp_path: pathlib.Path, name: str) -> None:
    """With mask buffers, a copied head, either style of keys, before 1.6 (make_torch_files.py)."""
    stored = DATA_FOLDER / f"{name}.bin"
    assert_same(
        tmp_path,
        lambda source: shutil.copyfile(stored, source / "pytorch_model.bin"),
        make_tensors(SMALLEST_SHAPE),
    )


@both_formats
@pytest.mark.parametrize(
    ("dtype", "label"), [("float16", "F16"), ("bfloat16", "BF16"), ("float64", "F64")]
)
def test_every_dtype_converts_to_the_bytes_of_its_values_in_float32(
    tmp_path: pathlib.Path, file: str, dtype: CheckpointDtype, label: str
) -> None:
    """Rounded to the dtype once, then widened, or narrowed."""
    tensors = make_tensors(SMALLEST_SHAPE)
    rounded = {n: t.astype(DTYPES[label]).astype(np.float32) for n, t in tensors.items()}
    assert_same(tmp_path, lambda source: write_weights(source, file, tensors, dtype=dtype), rounded)


@every_file
@pytest.mark.parametrize("tied", [True, False])
def test_every_file_converts_to_the_same_bytes(
    tmp_path: pathlib.Path, file: str, tied: bool
) -> None:
    """Whole or in three shards under an index, with a head of its own or without."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=tied)
    assert_same(
        tmp_path, lambda source: write_weights(source, file, tensors, shards=3), tensors, tied=tied
    )


@both_formats
def test_names_buffers_and_a_copied_head_make_no_difference(
    tmp_path: pathlib.Path, file: str
) -> None:
    """Without prefix, with mask buffers and with a copy of the tied head: the same two files."""
    tensors = make_tensors(SMALLEST_SHAPE)
    other = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    other["lm_head.weight"] = other["wte.weight"]
    other["h.0.attn.bias"] = np.ones((1, 1, 3, 3), np.float32)
    other["h.0.attn.masked_bias"] = np.ones((), np.float32)
    assert_same(tmp_path, lambda source: write_weights(source, file, other), tensors)


@every_file
def test_the_files_are_closed_when_the_checkpoint_is(tmp_path: pathlib.Path, file: str) -> None:
    """On Windows an open file could not be replaced; a left one would be a ResourceWarning."""
    source = write_checkpoint(tmp_path, SMALLEST_SHAPE)
    (source / "model.safetensors").unlink()
    write_weights(source, file, make_tensors(SMALLEST_SHAPE))
    with open_checkpoint(source) as checkpoint:
        checkpoint.read("wte.weight")
    with pytest.raises(ValueError, match="closed file"):
        checkpoint.read("wte.weight")
