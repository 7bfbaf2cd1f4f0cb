"""Weights on disk: what is read, under which names, and every fault that is told."""

import errno
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from export.checkpoint import Checkpoint, open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckpointError
from export.safetensors_file import TensorFileError, TensorInfo
from export.weights import expected_weights
from tests.checkpoints import (
    CheckpointDtype,
    CheckpointShape,
    FloatArray,
    make_tensors,
    write_checkpoint,
    write_safetensors,
)

_SHAPE = CheckpointShape(n_layer=2, n_head=1, n_embd=4, n_positions=3, vocab_size=5)


def write(folder: pathlib.Path, tensors: Mapping[str, FloatArray], *, tied: bool = True) -> None:
    """Write a checkpoint of the small shape with these tensors in place of its own."""
    write_checkpoint(folder, _SHAPE, tokenizer=None, tied=tied)
    write_safetensors(folder / "model.safetensors", tensors)


def find_faults(folder: pathlib.Path) -> list[str]:
    with open_checkpoint(folder) as checkpoint:
        return checkpoint.find_faults(read_config(folder))


def read_all(folder: pathlib.Path, config: GPT2Config) -> dict[str, FloatArray]:
    with open_checkpoint(folder) as checkpoint:
        return {name: checkpoint.read(name) for name in expected_weights(config)}


def strip_prefix(tensors: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}


# Values.


@pytest.mark.parametrize(
    ("dtype", "stored_as"),
    [
        ("float32", np.float32),
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float64", np.float64),
    ],
)
@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_weights_arrive_as_float32_with_no_bit_lost(
    tmp_path: pathlib.Path, dtype: CheckpointDtype, stored_as: npt.DTypeLike, prefix: Any
) -> None:
    """Each value is that of its stored type; names lose the prefix if they have it."""
    write_checkpoint(tmp_path, _SHAPE, dtype=dtype, prefix=prefix, tokenizer=None)
    found = read_all(tmp_path, read_config(tmp_path))
    for name, tensor in strip_prefix(make_tensors(_SHAPE)).items():
        wanted = tensor.astype(stored_as).astype(np.float32)
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == wanted.tobytes()


def test_the_expected_weights_are_those_that_the_config_calls_for(tmp_path: pathlib.Path) -> None:
    """Names, shapes and order of tests.checkpoints, which follows Hugging Face's files."""
    write_checkpoint(tmp_path, _SHAPE, tied=False, n_inner=6, tokenizer=None)
    wanted = strip_prefix(make_tensors(_SHAPE, tied=False, n_inner=6))
    found = expected_weights(read_config(tmp_path))
    assert list(found.items()) == [(name, tensor.shape) for name, tensor in wanted.items()]


# What may be there beside the weights.


def test_a_head_that_differs_though_tied_is_refused(tmp_path: pathlib.Path) -> None:
    """One bit of difference means that config and weights contradict each other."""
    tensors = make_tensors(_SHAPE)
    head = tensors["transformer.wte.weight"].copy()
    head[4, 3] = np.nextafter(head[4, 3], np.float32(9))
    write(tmp_path, {**tensors, "lm_head.weight": head})
    [fault] = find_faults(tmp_path)
    assert fault.startswith("lm_head.weight differs from wte.weight though tie_word_embeddings")


# Faults.


def _with(name: str, tensor: FloatArray) -> Callable[[dict[str, FloatArray]], None]:
    def change(tensors: dict[str, FloatArray]) -> None:
        tensors[name] = tensor

    return change


def _spoil(value: float) -> Callable[[dict[str, FloatArray]], None]:
    def change(tensors: dict[str, FloatArray]) -> None:
        tensors["transformer.wte.weight"][4, 3] = value

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda tensors: tensors.pop("transformer.ln_f.bias"), "ln_f.bias is missing"),
        (_with("lm_head.bias", np.ones(5, np.float32)), "lm_head.bias is not a GPT-2 weight"),
        (
            _with("transformer.h.2.ln_1.bias", np.ones(4, np.float32)),
            "transformer.h.2.ln_1.bias is not a GPT-2 weight",
        ),
        (
            _with("transformer.h.0.attn.c_attn.weight", np.ones((12, 4), np.float32)),
            "h.0.attn.c_attn.weight: expected shape [4, 12], found [12, 4] "
            "(transposed, as torch.nn.Linear keeps it; GPT-2's are Conv1D's)",
        ),
        (
            _with("transformer.ln_f.bias", np.ones((0,), np.float32)),
            "ln_f.bias: expected shape [4], found [0]",
        ),
        (
            _with("transformer.wpe.weight", np.ones((4, 4), np.float32)),
            "wpe.weight: expected shape [3, 4], found [4, 4] (n_positions in config.json is 3)",
        ),
        (_spoil(math.nan), "wte.weight holds NaN or infinity"),
        (_spoil(-math.inf), "wte.weight holds NaN or infinity"),
        (
            _with("lm_head.weight", np.ones((6, 4), np.float32)),
            "lm_head.weight: expected shape [5, 4], found [6, 4] (vocab_size in config.json is 5)",
        ),
        (
            _with("ln_f.bias", np.ones(4, np.float32)),
            "ln_f.bias occurs twice, as ln_f.bias and as transformer.ln_f.bias",
        ),
    ],
)
def test_one_wrong_weight_is_one_fault(
    tmp_path: pathlib.Path, change: Callable[[dict[str, FloatArray]], None], fault: str
) -> None:
    """Missing, unknown, beyond the last layer, transposed, empty, not finite, twice there."""
    tensors = make_tensors(_SHAPE)
    change(tensors)
    write(tmp_path, tensors)
    assert find_faults(tmp_path) == [fault]


@pytest.mark.parametrize("dtype", ["I32", "F8_E4M3"])
def test_weights_of_another_type_are_refused_by_it(tmp_path: pathlib.Path, dtype: str) -> None:
    """Quantized files keep integers or shorter floats; they are not GPT-2's weights."""
    write(tmp_path, make_tensors(_SHAPE))
    file = FakeFile(make_tensors(_SHAPE), {"transformer.wte.weight": dtype})
    [fault] = Checkpoint(tmp_path, file).find_faults(read_config(tmp_path))
    assert fault == f"wte.weight: expected dtype F32, F16, BF16 or F64, found {dtype}"


@pytest.mark.parametrize("value", [1e39, -1e300, math.nan])
def test_a_float64_weight_that_float32_cannot_hold_is_a_fault(
    tmp_path: pathlib.Path, value: float
) -> None:
    """It would be infinite, without a warning."""
    write(tmp_path, make_tensors(_SHAPE))
    tensors = {**make_tensors(_SHAPE), "transformer.ln_f.bias": np.array([0, 0, value, 0])}
    write_safetensors(tmp_path / "model.safetensors", tensors, dtype="float64")
    [fault] = find_faults(tmp_path)
    assert fault == "ln_f.bias holds NaN or infinity (or numbers that float32 cannot hold)"


def test_all_faults_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Missing, misshaped, unknown, not finite and of another type: five faults of one look."""
    write(tmp_path, make_tensors(_SHAPE))
    tensors = make_tensors(_SHAPE)
    del tensors["transformer.ln_f.weight"]
    tensors["transformer.h.1.ln_2.bias"] = np.ones(3, np.float32)
    tensors["transformer.extra"] = np.ones(1, np.float32)
    tensors["transformer.wpe.weight"][0, 0] = math.nan
    file = FakeFile(tensors, {"transformer.wte.weight": "I32"})
    faults = Checkpoint(tmp_path, file).find_faults(read_config(tmp_path))
    named = ("ln_f.weight", "h.1.ln_2.bias", "transformer.extra", "wpe.weight", "wte.weight")
    assert sorted(fault.split()[0].rstrip(":") for fault in faults) == sorted(named)


class FakeFile:
    """A file of float32 tensors, some of which say that they are of another type."""

    def __init__(self, arrays: Mapping[str, FloatArray], dtypes: Mapping[str, str]) -> None:
        self._arrays = arrays
        self.tensors = {
            name: TensorInfo(dtypes.get(name, "F32"), array.shape) for name, array in arrays.items()
        }

    def read(self, name: str) -> FloatArray:
        return self._arrays[name]


def test_a_file_that_fails_in_the_middle_names_the_weight(tmp_path: pathlib.Path) -> None:
    """The file's fault on one tensor, and the system's, are told with that tensor's name."""
    checkpoint = Checkpoint(tmp_path, FailingFile(TensorFileError("the file ends too early")))
    with pytest.raises(CheckpointError, match=r"ln_f\.bias cannot be read: the file ends too"):
        checkpoint.read("ln_f.bias")
    checkpoint = Checkpoint(tmp_path, FailingFile(OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(CheckpointError, match=r"ln_f\.bias cannot be read: Input/output error"):
        checkpoint.read("ln_f.bias")


class FailingFile:
    """A file of one weight that cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.tensors = {"transformer.ln_f.bias": TensorInfo("F32", (4,))}
        self._error = error

    def read(self, name: str) -> npt.NDArray[Any]:
        raise self._error
