"""Which adapters a conversion refuses, and what it says: no model folder is written."""

import pathlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from export.convert import convert
from export.errors import CheckpointError
from tests.checkpoints import CheckpointShape, write_checkpoint, write_safetensors
from tests.vectors.adapter_cases import ADAPTERS, BASE_NAME, BASE_SHAPE, copy_adapter, write_base

_TENSORS: Final = "adapter_model.safetensors"
_MODULE: Final = "base_model.model.transformer.h.0.attn.c_attn"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the checkpoint that the adapters were made for; read it, do not change it."""
    return write_base(tmp_path_factory.mktemp("base"))


def find_faults(base: pathlib.Path, *adapters: pathlib.Path) -> list[str]:
    """Return what a refused conversion says, without the name of the first adapter."""
    with pytest.raises(CheckpointError) as caught:
        convert(base, base.parent / "refused", adapters=adapters)
    assert not (base.parent / "refused").exists()
    return [fault.removeprefix(f"adapter {adapters[0]}: ") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dora", "adapter_config.json field use_dora is true: not implemented"),
        ("tokens", "adapter_config.json field trainable_token_indices is [3, 5]: not implemented"),
        (
            "pissa",
            'init_lora_weights is "pissa": not implemented, since it changes the base; '
            "save the adapter anew as plain LoRA",
        ),
        ("ia3", 'peft_type is "IA3", only LORA can be merged'),
    ],
)
def test_what_peft_can_do_more_is_refused_by_its_name(
    base: pathlib.Path, name: str, told: str
) -> None:
    """Adapters that peft made so."""
    assert find_faults(base, ADAPTERS / name) == [told]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layer_replication", [[0, 1], [0, 2]]),
        ("alora_invocation_tokens", [1]),
        ("kasa_config", {"beta": 1}),
        ("of_a_later_peft", 0.5),
    ],
)
def test_a_field_that_is_not_known_is_refused(
    base: pathlib.Path, tmp_path: pathlib.Path, field: str, value: Any
) -> None:
    """Unless it says nothing: null, false or empty."""
    adapter = copy_adapter("plain", tmp_path / "adapter", **{field: value})
    (fault,) = find_faults(base, adapter)
    assert fault.startswith(f"adapter_config.json field {field} is ")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"r": 0}, "field r: expected an integer from 1 to 1048576, found 0"),
        ({"lora_alpha": "8"}, 'field lora_alpha: expected a number, found "8"'),
        ({"use_rslora": 1}, "field use_rslora: expected true or false, found 1"),
        (
            {"modules_to_save": "wte"},
            'field modules_to_save: expected a list of names, found "wte"',
        ),
        ({"rank_pattern": [4]}, "field rank_pattern: expected an object, found [4]"),
        (
            {"alpha_pattern": {"c_fc": None}},
            'alpha_pattern "c_fc": expected a number, found nothing',
        ),
        ({"rank_pattern": {"(": 4}}, 'field rank_pattern: expected patterns, found "("'),
        ({"rank_pattern": {"(.+)+x": 4}}, "field rank_pattern: expected simple patterns"),
        ({"alpha_pattern": {".*.*.*.*x": 4}}, "field alpha_pattern: expected simple patterns"),
        ({"r": 5}, "lora_A.weight has shape [4, 16], expected [5, 16], and 7 more do not fit"),
    ],
)
def test_a_damaged_configuration_is_told_by_its_field(
    base: pathlib.Path, tmp_path: pathlib.Path, changed: dict[str, Any], told: str
) -> None:
    """Among them patterns that would match for ever."""
    adapter = copy_adapter("plain", tmp_path / "adapter", **changed)
    assert told in "; ".join(find_faults(base, adapter))


def test_another_base_is_refused_with_the_name_of_the_right_one(tmp_path: pathlib.Path) -> None:
    """The width of all matrices differs; one fault says so."""
    shape = CheckpointShape(n_layer=2, n_head=2, n_embd=32, n_positions=16, vocab_size=97)
    other = write_checkpoint(tmp_path / "other", shape)
    faults = find_faults(other, ADAPTERS / "bias-lora-only")
    assert faults == [
        f"{_MODULE}.lora_A.weight has shape [2, 16], expected [2, 32], and 3 more do not fit; "
        f"it was made for {BASE_NAME}"
    ]


def test_a_base_with_fewer_layers_is_refused(tmp_path: pathlib.Path) -> None:
    """Its weights have no place for the others."""
    shape = CheckpointShape(n_layer=1, n_head=2, n_embd=16, n_positions=16, vocab_size=97)
    other = write_checkpoint(tmp_path / "other", shape)
    (fault,) = find_faults(other, ADAPTERS / "rslora")
    assert fault == f"the base has no h.1.attn.c_attn.weight; it was made for {BASE_NAME}"


def test_a_vocabulary_without_a_head_is_refused(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A trained wte is not lm_head, whose rows of the new tokens are not known."""
    adapter = copy_adapter("saved-wte", tmp_path / "adapter")
    tensors = {"base_model.model.transformer.wte.weight": np.zeros((99, 16), np.float32)}
    write_safetensors(adapter / _TENSORS, tensors)
    assert find_faults(base, adapter) == [
        "an adapter changes vocab_size from 97 to 99, but has no lm_head"
    ]


def _truncate(adapter: pathlib.Path) -> None:
    data = (adapter / _TENSORS).read_bytes()
    (adapter / _TENSORS).write_bytes(data[:-10])


def _point(adapter: pathlib.Path) -> None:
    (adapter / _TENSORS).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


def _remove(adapter: pathlib.Path) -> None:
    (adapter / _TENSORS).unlink()


def _unconfigure(adapter: pathlib.Path) -> None:
    (adapter / "adapter_config.json").unlink()


def _break_json(adapter: pathlib.Path) -> None:
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA"', encoding="utf-8")


def _write(**tensors: tuple[int, ...]) -> Callable[[pathlib.Path], None]:
    named = {name: np.zeros(shape, np.float32) for name, shape in tensors.items()}
    return lambda adapter: write_safetensors(adapter / _TENSORS, named)


def _place_infinity(adapter: pathlib.Path) -> None:
    a, b = np.zeros((4, 16), np.float32), np.zeros((48, 4), np.float32)
    a[0, 0] = b[0, 0] = 3e38
    named = {f"{_MODULE}.lora_A.weight": a, f"{_MODULE}.lora_B.weight": b}
    write_safetensors(adapter / _TENSORS, named)


def _call_code(adapter: pathlib.Path) -> None:
    (adapter / _TENSORS).unlink()
    (adapter / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'echo run'\ntR.")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_truncate, "adapter_model.safetensors cannot be read: it has "),
        (_point, "adapter_model.safetensors cannot be read: it is a Git LFS pointer"),
        (_remove, "adapter_model.safetensors is missing, and so is adapter_model.bin"),
        (_unconfigure, "adapter_config.json is missing"),
        (_break_json, "adapter_config.json is not JSON"),
        (_write(), "it holds no tensors"),
        (_write(**{f"{_MODULE}.lora_A.weight": (4, 16)}), "attn.c_attn lacks B of LoRA"),
        (_write(**{f"{_MODULE}.lora_A.bias": (4,)}), "c_attn.lora_A.bias is not known"),
        (
            _write(**{f"{_MODULE}.lora_A{name}.weight": (4, 16) for name in ("", ".default")}),
            "c_attn.lora_A.weight is not known, or is there twice",
        ),
        (
            _write(**{"ln_f.bias": (16,), "transformer.ln_f.bias": (16,)}),
            "transformer.ln_f.bias is there twice",
        ),
        (_write(**{"h.0.attn.q_proj.weight": (4, 4)}), "the base has no h.0.attn.q_proj.weight"),
        (_write(**{f"{_MODULE}.lora_magnitude_vector": (48,)}), "c_attn.lora_magnitude_vector"),
        (
            _write(**{f"{m}.lora_{p}.weight": (4, 16) for m in ["ln_f"] for p in "AB"}),
            "ln_f.lora_A.weight belongs to no matrix",
        ),
        (_place_infinity, "h.0.attn.c_attn.weight holds NaN or infinity once the adapters"),
        (_call_code, "adapter_model.bin cannot be read"),
    ],
    ids=lambda value: value.__name__ if callable(value) else value[:30],
)
def test_damaged_and_hostile_files_are_told(
    base: pathlib.Path, tmp_path: pathlib.Path, harm: Callable[[pathlib.Path], None], told: str
) -> None:
    """Nothing of them is run, and none is half taken."""
    harm(copy_adapter("plain", tmp_path / "adapter"))
    assert told in "; ".join(find_faults(base, tmp_path / "adapter"))


def test_the_faults_of_all_adapters_are_told_at_once(base: pathlib.Path) -> None:
    """Each with its folder."""
    faults = find_faults(base, ADAPTERS / "ia3", ADAPTERS / "dora")
    assert len(faults) == 2
    assert faults[1].startswith(f"adapter {ADAPTERS / 'dora'}: ")


def test_a_tokenizer_that_cannot_be_read_is_told_with_its_adapter(
    base: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Of two folders, the one that it lies in."""
    adapter = copy_adapter("plain", tmp_path / "adapter")
    (adapter / "tokenizer.json").write_text("{}", encoding="utf-8")
    (fault,) = find_faults(base, adapter)
    assert fault.startswith("the tokenizer cannot be read: Model missing")


def test_a_base_with_faults_is_told_first(tmp_path: pathlib.Path) -> None:
    """Whether an adapter fits cannot be told of it."""
    broken = write_checkpoint(tmp_path / "broken", BASE_SHAPE, tied=False)
    write_checkpoint(tmp_path / "other", BASE_SHAPE)
    (tmp_path / "other" / "model.safetensors").replace(broken / "model.safetensors")
    assert find_faults(broken, ADAPTERS / "plain") == ["lm_head.weight is missing"]
