"""The names that weights are stored under: which are read as what, left out, told, or refused."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.weights import find_published
from tests.checkpoints import FloatArray, make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import SMALLEST_SHAPE

_ONE = np.ones(1, np.float32)


def look(
    folder: pathlib.Path, tensors: Mapping[str, FloatArray], **options: Any
) -> tuple[list[str], list[str]]:
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


# Prefixes.


@pytest.mark.parametrize("inner", ["transformer.", ""])
@pytest.mark.parametrize(
    "prefix",
    ["module.", "base_model.model.", "a.b.c.d.e."],
)
def test_a_prefix_of_all_names_is_left_off_and_told(
    tmp_path: pathlib.Path, prefix: str, inner: str
) -> None:
    """That of DataParallel, torch.compile, peft, Lightning, several, and any other."""
    tensors = {
        prefix + inner + name.removeprefix("transformer."): tensor
        for name, tensor in make_tensors(SMALLEST_SHAPE).items()
    }
    faults, notes = look(tmp_path, tensors)
    assert (faults, notes) == ([], [f"{prefix} was left off the names of all weights"])


def test_a_prefix_stands_before_head_and_masks_too(tmp_path: pathlib.Path) -> None:
    """What is not in `transformer.` has it as well."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=False)
    tensors["transformer.h.0.attn.bias"] = _ONE
    tensors["score.weight"] = _ONE
    named = {f"module.{name}": tensor for name, tensor in tensors.items()}
    faults, notes = look(tmp_path, named, tied=False)
    assert faults == []
    assert notes == [
        "module. was left off the names of all weights",
        "score.* was left out; the language model does not use it",
    ]


def test_a_prefix_of_some_names_only_is_not_left_off(tmp_path: pathlib.Path) -> None:
    """A file of two models: which of them is meant nobody can say."""
    named = {f"student.{name}": tensor for name, tensor in make_tensors(SMALLEST_SHAPE).items()}
    faults, notes = look(tmp_path, {**named, "teacher.embed": _ONE})
    assert notes == []
    assert faults == [
        "wte.weight, wpe.weight, h.0.ln_1.weight, h.0.ln_1.bias and 12 more are missing",
        "student.transformer.h.0.attn.c_attn.bias, student.transformer.h.0.attn.c_attn.weight, "
        "student.transformer.h.0.attn.c_proj.bias, student.transformer.h.0.attn.c_proj.weight "
        "and 13 more are not GPT-2 weights",
    ]


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
    faults, notes = look(tmp_path, {**make_tensors(SMALLEST_SHAPE), head: _ONE})
    assert faults == []
    assert notes == [f"{told} was left out; the language model does not use it"]


@pytest.mark.parametrize("tied", [True, False])
def test_the_heads_older_name_is_read_and_told(tmp_path: pathlib.Path, tied: bool) -> None:
    """DialoGPT's first files call it lm_head.decoder.weight."""
    tensors = make_tensors(SMALLEST_SHAPE, tied=tied)
    head = tensors.pop("lm_head.weight", tensors["transformer.wte.weight"])
    faults, notes = look(tmp_path, {**tensors, "lm_head.decoder.weight": head}, tied=tied)
    assert faults == []
    assert notes == ["lm_head.decoder.weight was read as lm_head.weight"]


@pytest.mark.parametrize(
    "name",
    [
        "lm_head.bias",
        "head.weight",
        "transformer.score.weight",
        "transformer.h.0.attn.rotary_emb.inv_freq",
        "transformer.h.0.attn.c_attn.weight_scale",
        "score",
        "my_score.weight",
    ],
)
def test_what_the_text_may_depend_on_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    """A bias of the head, another head, a prompt, positions, cross-attention, scales, a layer."""
    faults, _ = look(tmp_path, {**make_tensors(SMALLEST_SHAPE), name: _ONE})
    assert faults == [f"{name} is not a GPT-2 weight"]


def test_adapters_are_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    """The weights without them are those of another model."""
    lora = {"transformer.h.0.attn.c_attn.lora_A.default.weight": _ONE}
    faults, _ = look(tmp_path, {**make_tensors(SMALLEST_SHAPE), **lora})
    assert len(faults) == 1
    assert faults[0].endswith("is not a GPT-2 weight; merge the LoRA adapters into the model first")


@pytest.mark.parametrize("prefix", ["", "model."])
def test_one_weight_under_two_names_is_told_by_both(prefix: str) -> None:
    """With and without `transformer.`, or the head by its older name too."""
    names = [f"{prefix}{n}" for n in ("wte.weight", "ln_f.bias", "transformer.ln_f.bias")]
    heads = [f"{prefix}lm_head.decoder.weight", f"{prefix}lm_head.weight"]
    assert find_published([*names, *heads]).faults == [
        f"lm_head.weight occurs twice, as {heads[0]} and as {heads[1]}",
        f"ln_f.bias occurs twice, as {prefix}ln_f.bias and as {prefix}transformer.ln_f.bias",
    ]


# Shapes.
