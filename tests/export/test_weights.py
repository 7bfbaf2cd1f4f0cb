"""The weights of a checkpoint: names that are read, left out, told or refused, and every fault."""

import errno
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from export.checkpoint import Checkpoint, open_checkpoint
from export.config import read_config
from export.errors import CheckpointError
from export.safetensors_file import TensorFileError, TensorInfo
from export.weights import expected_weights, find_published
from tests.checkpoints import FloatArray, make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import SMALLEST_SHAPE

_ONE: Final = np.ones(1, np.float32)
_WTE: Final = make_tensors(SMALLEST_SHAPE)["transformer.wte.weight"]  # [5, 4]

Tensors = dict[str, FloatArray]


def look(folder: pathlib.Path, tensors: Tensors, **options: Any) -> tuple[list[str], list[str]]:
    """Return the faults and the notes of a checkpoint of the smallest shape with these tensors.

    Where there is no fault, each weight was read as the one of its published name.
    """
    write_checkpoint(folder, SMALLEST_SHAPE, tokenizer=None, **options)
    write_safetensors(folder / "model.safetensors", tensors)
    with open_checkpoint(folder) as checkpoint:
        faults = checkpoint.find_faults(read_config(folder))
        if not faults:
            for name, tensor in make_tensors(SMALLEST_SHAPE, **options).items():
                found = checkpoint.read(name.removeprefix("transformer."))
                assert np.array_equal(found, tensor)
        return faults, list(checkpoint.notes)


def test_the_expected_weights_are_those_that_the_config_calls_for(tmp_path: pathlib.Path) -> None:
    """Names, shapes and order of tests.checkpoints, which follows Hugging Face's files."""
    write_checkpoint(tmp_path, SMALLEST_SHAPE, tied=False, n_inner=6, tokenizer=None)
    wanted = make_tensors(SMALLEST_SHAPE, tied=False, n_inner=6)
    assert list(expected_weights(read_config(tmp_path)).items()) == [
        (name.removeprefix("transformer."), tensor.shape) for name, tensor in wanted.items()
    ]


# Prefixes.


@pytest.mark.parametrize("inner", ["transformer.", ""])
@pytest.mark.parametrize("prefix", ["module.", "base_model.model.", "a.b.c.d.e."])
def test_a_prefix_of_all_names_is_left_off_and_told(
    tmp_path: pathlib.Path, prefix: str, inner: str
) -> None:
    """That of DataParallel, torch.compile, peft, Lightning, several, and any other."""
    tensors = {
        prefix + inner + name.removeprefix("transformer."): tensor
        for name, tensor in make_tensors(SMALLEST_SHAPE).items()
    }
    assert look(tmp_path, tensors) == ([], [f"{prefix} was left off the names of all weights"])


def test_a_prefix_stands_before_head_and_masks_too(tmp_path: pathlib.Path) -> None:
    """What is not in `transformer.` has it as well."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=False)
    tensors |= {"transformer.h.0.attn.bias": _ONE, "score.weight": _ONE}
    named = {f"module.{name}": tensor for name, tensor in tensors.items()}
    assert look(tmp_path, named, tied=False) == (
        [],
        [
            "module. was left off the names of all weights",
            "score.* was left out; the language model does not use it",
        ],
    )


def test_a_prefix_of_some_names_only_is_not_left_off(tmp_path: pathlib.Path) -> None:
    """A file of two models: which of them is meant nobody can say."""
    named = {f"student.{name}": tensor for name, tensor in make_tensors(SMALLEST_SHAPE).items()}
    faults = [
        "wte.weight, wpe.weight, h.0.ln_1.weight, h.0.ln_1.bias and 12 more are missing",
        "student.transformer.h.0.attn.c_attn.bias, student.transformer.h.0.attn.c_attn.weight, "
        "student.transformer.h.0.attn.c_proj.bias, student.transformer.h.0.attn.c_proj.weight "
        "and 13 more are not GPT-2 weights",
    ]
    assert look(tmp_path, {**named, "teacher.embed": _ONE}) == (faults, [])


# Weights beside the language model's.


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("multiple_choice_head.summary.weight", "multiple_choice_head.*"),
        ("v_head.summary.bias", "v_head.*"),
        ("qa_outputs.bias", "qa_outputs.*"),
    ],
)
def test_a_head_of_another_task_is_left_out_and_told(
    tmp_path: pathlib.Path, head: str, told: str
) -> None:
    """The language model beside it is whole."""
    notes = [f"{told} was left out; the language model does not use it"]
    assert look(tmp_path, {**make_tensors(SMALLEST_SHAPE), head: _ONE}) == ([], notes)


@pytest.mark.parametrize("tied", [True, False])
def test_the_heads_older_name_is_read_and_told(tmp_path: pathlib.Path, tied: bool) -> None:
    """DialoGPT's first files call it lm_head.decoder.weight."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=tied)
    tensors["lm_head.decoder.weight"] = tensors.pop("lm_head.weight", _WTE)
    notes = ["lm_head.decoder.weight was read as lm_head.weight"]
    assert look(tmp_path, tensors, tied=tied) == ([], notes)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_one_weight_under_two_names_is_told_by_both(prefix: str) -> None:
    """With and without `transformer.`, or the head by its older name too."""
    names = [f"{prefix}{n}" for n in ("wte.weight", "ln_f.bias", "transformer.ln_f.bias")]
    heads = [f"{prefix}lm_head.decoder.weight", f"{prefix}lm_head.weight"]
    assert find_published([*names, *heads]).faults == [
        f"lm_head.weight occurs twice, as {heads[0]} and as {heads[1]}",
        f"ln_f.bias occurs twice, as {prefix}ln_f.bias and as {prefix}transformer.ln_f.bias",
    ]


# Faults.


def _spoil(value: float) -> FloatArray:
    """Return wte with another last number."""
    spoilt = _WTE.copy()
    spoilt[4, 3] = value
    return spoilt


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        # A bias of the head, another head, a prompt, positions, scales, a layer beyond the last.
        *(
            ({name: _ONE}, f"{name} is not a GPT-2 weight")
            for name in (
                *("lm_head.bias", "head.weight", "score", "my_score.weight"),
                *("transformer.score.weight", "transformer.h.0.attn.rotary_emb.inv_freq"),
                *("transformer.h.0.attn.c_attn.weight_scale", "transformer.h.1.ln_1.bias"),
            )
        ),
        (  # the weights without them are those of another model
            {"transformer.h.0.attn.c_attn.lora_A.default.weight": _ONE},
            "transformer.h.0.attn.c_attn.lora_A.default.weight is not a GPT-2 weight; "
            "merge the LoRA adapters into the model first",
        ),
        (
            {"transformer.h.0.attn.c_attn.weight": np.ones((12, 4), np.float32)},
            "h.0.attn.c_attn.weight: expected shape [4, 12], found [12, 4] "
            "(transposed, as torch.nn.Linear keeps it; GPT-2's are Conv1D's)",
        ),
        (
            {"transformer.ln_f.bias": np.ones(0, np.float32)},
            "ln_f.bias: expected shape [4], found [0]",
        ),
        (
            {"transformer.wpe.weight": np.ones((4, 4), np.float32)},
            "wpe.weight: expected shape [3, 4], found [4, 4] (the config has n_positions 3)",
        ),
        (
            {"lm_head.weight": np.ones((6, 4), np.float32)},
            "lm_head.weight: expected shape [5, 4], found [6, 4] (the config has vocab_size 5)",
        ),
        (
            {"lm_head.weight": _spoil(float(np.nextafter(_WTE[4, 3], np.float32(9))))},
            "lm_head.weight differs from wte.weight though tie_word_embeddings is true; "
            "set it to false in config.json to use lm_head.weight",
        ),
        (
            {"ln_f.bias": np.ones(4, np.float32)},
            "ln_f.bias occurs twice, as ln_f.bias and as transformer.ln_f.bias",
        ),
        ({"transformer.wte.weight": _spoil(math.nan)}, "wte.weight holds NaN or infinity"),
        ({"transformer.wte.weight": _spoil(-math.inf)}, "wte.weight holds NaN or infinity"),
    ],
)
def test_one_wrong_weight_is_one_fault(
    tmp_path: pathlib.Path, changes: Tensors, fault: str
) -> None:
    """What the text may depend on, a shape, one bit of a tied head, what is not finite."""
    assert look(tmp_path, make_tensors(SMALLEST_SHAPE) | changes)[0] == [fault]


@pytest.mark.parametrize("value", [1e39, -1e300, math.nan])
def test_a_float64_weight_that_float32_cannot_hold_is_a_fault(
    tmp_path: pathlib.Path, value: float
) -> None:
    """It would be infinite, without a warning."""
    write_checkpoint(tmp_path, SMALLEST_SHAPE, tokenizer=None)
    tensors = {**make_tensors(SMALLEST_SHAPE), "transformer.ln_f.bias": np.array([0, 0, value, 0])}
    write_safetensors(tmp_path / "model.safetensors", tensors, dtype="float64")
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.find_faults(read_config(tmp_path)) == [
            "ln_f.bias holds NaN or infinity (or numbers that float32 cannot hold)"
        ]


class FakeFile:
    """A file of float32 tensors; some may say that they are of another type, or fail."""

    def __init__(
        self, arrays: Tensors, *, dtypes: Mapping[str, str] | None = None, error: Any = None
    ) -> None:
        self._arrays, self._error = arrays, error
        self.tensors = {
            name: TensorInfo((dtypes or {}).get(name, "F32"), array.shape)
            for name, array in arrays.items()
        }

    def read(self, name: str) -> npt.NDArray[Any]:
        if self._error is not None:
            raise self._error
        return self._arrays[name]


def test_all_faults_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Missing, unknown, not finite, misshaped, and of types that quantized files have."""
    write_checkpoint(tmp_path, SMALLEST_SHAPE, tokenizer=None)
    tensors = make_tensors(SMALLEST_SHAPE)
    del tensors["transformer.ln_f.weight"]
    tensors["transformer.h.0.ln_2.bias"] = np.ones(3, np.float32)
    tensors["transformer.extra"] = _ONE
    tensors["transformer.wpe.weight"][0, 0] = math.nan
    dtypes = {"transformer.wte.weight": "I32", "transformer.ln_f.bias": "F8_E4M3"}
    file = FakeFile(tensors, dtypes=dtypes)
    expected = "expected dtype F32, F16, BF16 or F64"
    assert Checkpoint(tmp_path, file).find_faults(read_config(tmp_path)) == [
        "ln_f.weight is missing",
        "transformer.extra is not a GPT-2 weight",
        f"wte.weight: {expected}, found I32",
        "wpe.weight holds NaN or infinity",
        "h.0.ln_2.bias: expected shape [4], found [3]",
        f"ln_f.bias: {expected}, found F8_E4M3",
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TensorFileError("the file ends too early"), "the file ends too early"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error"),
    ],
)
def test_a_file_that_fails_in_the_middle_names_the_weight(error: Exception, told: str) -> None:
    """The file's fault on one tensor, and the system's."""
    file = FakeFile({"transformer.ln_f.bias": _ONE}, error=error)
    with pytest.raises(CheckpointError, match=rf"ln_f\.bias cannot be read: {told}"):
        Checkpoint(pathlib.Path(), file).read("ln_f.bias")
