"""Weights on disk: what is read, under which names, and every fault that is told."""

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from export.checkpoint import ArrayWeights, Checkpoint, expected_weights, open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckpointError
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
    [("float32", np.float32), ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)],
)
@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_weights_arrive_as_float32_with_no_bit_lost(
    tmp_path: pathlib.Path, dtype: CheckpointDtype, stored_as: npt.DTypeLike, prefix: Any
) -> None:
    """Each value is that of its stored type, widened; names lose the prefix if they have it."""
    write_checkpoint(tmp_path, _SHAPE, dtype=dtype, prefix=prefix, tokenizer=None)
    found = read_all(tmp_path, read_config(tmp_path))
    for name, tensor in strip_prefix(make_tensors(_SHAPE)).items():
        wanted = tensor.astype(stored_as).astype(np.float32)
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == wanted.tobytes()


def test_bfloat16_needs_no_other_module_of_this_package(tmp_path: pathlib.Path) -> None:
    """Safetensors asks numpy for a type that onnx, not loaded here, happens to bring along."""
    write_checkpoint(tmp_path, _SHAPE, dtype="bfloat16", tokenizer=None)
    code = (
        "import pathlib, sys\n"
        "from export.checkpoint import open_checkpoint\n"
        "with open_checkpoint(pathlib.Path(sys.argv[1])) as weights:\n"
        "    weights.read('wte.weight')\n"
        "sys.exit('onnx' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_expected_weights_are_those_that_the_config_calls_for(tmp_path: pathlib.Path) -> None:
    """Names, shapes and order of tests.checkpoints, which follows Hugging Face's files."""
    write_checkpoint(tmp_path, _SHAPE, tied=False, n_inner=6, tokenizer=None)
    wanted = strip_prefix(make_tensors(_SHAPE, tied=False, n_inner=6))
    found = expected_weights(read_config(tmp_path))
    assert list(found.items()) == [(name, tensor.shape) for name, tensor in wanted.items()]


def test_arrays_in_memory_are_a_source_of_weights() -> None:
    """ArrayWeights gives back what it was given."""
    one = np.ones(1, np.float32)
    assert ArrayWeights({"ln_f.bias": one}).read("ln_f.bias") is one


# What may be there beside the weights.


def test_mask_buffers_of_older_files_are_passed_over(tmp_path: pathlib.Path) -> None:
    """`attn.bias` and `attn.masked_bias`, with and without prefix, are no weights."""
    ones, one = np.ones((1, 1, 3, 3), np.float32), np.ones((), np.float32)
    buffers = {"transformer.h.0.attn.bias": ones, "transformer.h.1.attn.masked_bias": one}
    write(tmp_path, {**make_tensors(_SHAPE), **buffers, "h.1.attn.bias": ones})
    assert find_faults(tmp_path) == []


def test_a_copy_of_the_tied_head_is_passed_over(tmp_path: pathlib.Path) -> None:
    """Some files repeat wte as lm_head.weight."""
    tensors = make_tensors(_SHAPE)
    write(tmp_path, {**tensors, "lm_head.weight": tensors["transformer.wte.weight"]})
    assert find_faults(tmp_path) == []


def test_a_head_that_differs_though_tied_is_refused(tmp_path: pathlib.Path) -> None:
    """One bit of difference means that config and weights contradict each other."""
    tensors = make_tensors(_SHAPE)
    head = tensors["transformer.wte.weight"].copy()
    head[4, 3] = np.nextafter(head[4, 3], np.float32(9))
    write(tmp_path, {**tensors, "lm_head.weight": head})
    [fault] = find_faults(tmp_path)
    assert fault.startswith("lm_head.weight differs from wte.weight though tie_word_embeddings")


def test_a_misshaped_copy_of_the_tied_head_is_refused(tmp_path: pathlib.Path) -> None:
    """A head of another vocabulary cannot be the tied one."""
    write(tmp_path, {**make_tensors(_SHAPE), "lm_head.weight": np.ones((6, 4), np.float32)})
    [fault] = find_faults(tmp_path)
    assert fault == "lm_head.weight: expected shape [5, 4], found [6, 4]"


def test_an_untied_head_must_be_there(tmp_path: pathlib.Path) -> None:
    """tie_word_embeddings false without lm_head.weight is a missing weight."""
    write(tmp_path, make_tensors(_SHAPE), tied=False)
    assert find_faults(tmp_path) == ["lm_head.weight is missing"]


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
        (_with("score.weight", np.ones(1, np.float32)), "score.weight is not a GPT-2 weight"),
        (
            _with("transformer.h.2.ln_1.bias", np.ones(4, np.float32)),
            "h.2.ln_1.bias is not a GPT-2 weight",
        ),
        (
            _with("transformer.h.0.attn.c_attn.weight", np.ones((12, 4), np.float32)),
            "h.0.attn.c_attn.weight: expected shape [4, 12], found [12, 4]",
        ),
        (
            _with("transformer.ln_f.bias", np.ones((0,), np.float32)),
            "ln_f.bias: expected shape [4], found [0]",
        ),
        (_spoil(math.nan), "wte.weight holds NaN or infinity"),
        (_spoil(-math.inf), "wte.weight holds NaN or infinity"),
        (
            _with("ln_f.bias", np.ones(4, np.float32)),
            "ln_f.bias is there twice, once as transformer.ln_f.bias",
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


def split_file(path: pathlib.Path) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join_file(path: pathlib.Path, header: object, data: bytes, *, size: int | None = None) -> None:
    """Write a safetensors file; `size` may lie about the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if size is None else size).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize("dtype", ["I32", "U32"])
def test_integer_weights_are_refused_by_their_type(tmp_path: pathlib.Path, dtype: str) -> None:
    """Quantized files keep integers; they are not GPT-2's weights."""
    write(tmp_path, make_tensors(_SHAPE))
    header, data = split_file(tmp_path / "model.safetensors")
    header["transformer.wte.weight"]["dtype"] = dtype
    join_file(tmp_path / "model.safetensors", header, data)
    [fault] = find_faults(tmp_path)
    assert fault == f"wte.weight: expected dtype F32, F16 or BF16, found {dtype}"


def test_float64_weights_are_refused_by_their_type(tmp_path: pathlib.Path) -> None:
    """Float32 could not hold them exactly."""
    write(tmp_path, {**make_tensors(_SHAPE), "transformer.ln_f.bias": np.ones(8, np.float32)})
    header, data = split_file(tmp_path / "model.safetensors")
    header["transformer.ln_f.bias"] |= {"dtype": "F64", "shape": [4]}
    join_file(tmp_path / "model.safetensors", header, data)
    [fault] = find_faults(tmp_path)
    assert fault == "ln_f.bias: expected dtype F32, F16 or BF16, found F64"


def test_all_faults_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Missing, misshaped, unknown, not finite and of another type: five faults of one look."""
    tensors = make_tensors(_SHAPE)
    del tensors["transformer.ln_f.weight"]
    tensors["transformer.h.1.ln_2.bias"] = np.ones(3, np.float32)
    tensors["transformer.extra"] = np.ones(1, np.float32)
    tensors["transformer.wpe.weight"][0, 0] = math.nan
    write(tmp_path, tensors)
    header, data = split_file(tmp_path / "model.safetensors")
    header["transformer.wte.weight"]["dtype"] = "I32"
    join_file(tmp_path / "model.safetensors", header, data)
    faults = find_faults(tmp_path)
    named = ("ln_f.weight", "h.1.ln_2.bias", "extra", "wpe.weight", "wte.weight")
    assert sorted(fault.split()[0].rstrip(":") for fault in faults) == sorted(named)


# Damaged files.


def _cut_at(share: float) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: round(share * len(content))])

    return damage


def _replace_header(header: object, size: int | None = None) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        join_file(path, header, split_file(path)[1], size=size)

    return damage


def _move(name: str, offsets: list[int]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        header, data = split_file(path)
        header[name]["data_offsets"] = offsets
        join_file(path, header, data)

    return damage


def _replace_by_folder(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()


_DAMAGES: Mapping[str, Callable[[pathlib.Path], object]] = {
    "missing": lambda path: path.unlink(),
    "folder": _replace_by_folder,
    "empty": lambda path: path.write_bytes(b""),
    "cut-in-the-length": lambda path: path.write_bytes(path.read_bytes()[:7]),
    "cut-in-the-header": _cut_at(0.2),
    "cut-in-the-data": _cut_at(0.9),
    "one-byte-short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "header-not-utf8": _replace_header(b"\xff" * 64),
    "header-not-json": _replace_header(b"{" * 64),
    "header-a-list": _replace_header([]),
    "header-empty": _replace_header({}),
    "header-deep": _replace_header(b"[" * 100_000),
    "header-of-1-GB": _replace_header({}, size=2**30),
    "header-of-2^64-bytes": _replace_header({}, size=2**64 - 1),
    "overlap": _move("transformer.wpe.weight", [0, 48]),
    "backwards": _move("transformer.wpe.weight", [128, 80]),
    "negative": _move("transformer.wpe.weight", [-48, 0]),
    "beyond-the-end": _move("transformer.wpe.weight", [10**9, 10**9 + 48]),
    "a-pickle": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
}


@pytest.mark.parametrize("damage", _DAMAGES.values(), ids=_DAMAGES)
def test_a_damaged_file_is_one_line(
    tmp_path: pathlib.Path, damage: Callable[[pathlib.Path], object]
) -> None:
    """No damage ends in another exception or in more than a line."""
    write(tmp_path, make_tensors(_SHAPE))
    damage(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        find_faults(tmp_path)
    [fault] = caught.value.faults
    assert fault.startswith("model.safetensors ")
    assert "\n" not in str(caught.value)


def test_a_file_that_fails_in_the_middle_names_the_weight(tmp_path: pathlib.Path) -> None:
    """The reader's fault on one tensor is told with that tensor's name."""
    from safetensors import SafetensorError

    class FailingFile:
        def keys(self) -> list[str]:
            return ["transformer.ln_f.bias"]

        def get_tensor(self, name: str) -> FloatArray:
            raise SafetensorError(f"no {name}")

    checkpoint = Checkpoint(tmp_path / "model.safetensors", FailingFile())
    with pytest.raises(CheckpointError, match=r"ln_f\.bias cannot be read: no transformer\.ln_f"):
        checkpoint.read("ln_f.bias")
