"""config.json and generation_config.json: what is read, what is refused, and by which words."""

import itertools
import json
import pathlib
import tracemalloc
from collections.abc import Sequence
from typing import Any, Final

import pytest

from export.config import GPT2Config, read_config
from export.errors import CheckpointError

FIELDS: Final = {"n_layer": 3, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50}


def write_json(path: pathlib.Path, value: object) -> None:
    """Write a file of JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")


def read_fields(folder: pathlib.Path, **changes: object) -> GPT2Config:
    """Read the smallest config with some fields added or replaced."""
    write_json(folder / "config.json", {**FIELDS, **changes})
    return read_config(folder)


def faults_of(folder: pathlib.Path, **changes: object) -> tuple[str, ...]:
    """Return the faults of the smallest config with some fields added or replaced."""
    with pytest.raises(CheckpointError) as caught:
        read_fields(folder, **changes)
    assert "\n" not in str(caught.value)
    return caught.value.faults


# Hugging Face's defaults.
_DEFAULTS: Final[dict[str, Any]] = {
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True,
}


def test_the_smallest_config_gets_the_defaults_of_gpt2(tmp_path: pathlib.Path) -> None:
    """Those of Hugging Face's GPT2Config; ids that no file names stay unknown."""
    fields = {**FIELDS, **_DEFAULTS}
    expected = GPT2Config(**fields, n_inner=32, bos_token_id=None, eos_token_ids=())
    assert read_fields(tmp_path) == expected


def test_every_field_is_read(tmp_path: pathlib.Path) -> None:
    """Each field that is not at its default arrives."""
    read: dict[str, Any] = {
        "n_inner": 12,
        "layer_norm_epsilon": 0.001,
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
    }
    others = {"activation_function": "relu", "reorder_and_upcast_attn": True, "eos_token_id": 49}
    expected = GPT2Config(**{**FIELDS, **read, "activation": "relu", "eos_token_ids": (49,)})
    assert read_fields(tmp_path, **read, **others) == expected


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("n_embd", "hidden_size"),
        ("n_positions", "max_position_embeddings"),
        ("n_positions", "n_ctx"),
        ("n_head", "num_attention_heads"),
        ("n_layer", "num_hidden_layers"),
    ],
)
def test_sizes_may_have_their_other_names(tmp_path: pathlib.Path, name: str, alias: str) -> None:
    """Hugging Face's aliases, and the older n_ctx, stand for GPT-2's own names."""
    fields = {alias if field == name else field: value for field, value in FIELDS.items()}
    write_json(tmp_path / "config.json", fields)
    assert getattr(read_config(tmp_path), name) == FIELDS[name]


def test_the_attention_scale_follows_the_two_flags(tmp_path: pathlib.Path) -> None:
    """1/sqrt(4) for head_dim 4; divided by the layer's number if asked; else 1."""
    plain = read_fields(tmp_path)
    assert [plain.attention_scale(layer) for layer in range(3)] == [0.5, 0.5, 0.5]
    inverse = read_fields(tmp_path, scale_attn_by_inverse_layer_idx=True)
    scales = [inverse.attention_scale(layer) for layer in range(3)]
    assert scales == pytest.approx([1 / 2, 1 / 4, 1 / 6])
    assert read_fields(tmp_path, scale_attn_weights=False).attention_scale(2) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "llama"),
        ("model_type", None),
        ("model_type", ["gpt2"]),
        ("add_cross_attention", True),
        ("is_encoder_decoder", True),
        ("pruned_heads", {"0": [1]}),
        ("quantization_config", {"quant_method": "bitsandbytes"}),
        ("rope_scaling", {"type": "linear"}),
        ("sliding_window", 128),
        ("activation_function", "gelu_10"),
        ("activation_function", "GELU"),
        ("activation_function", ""),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    tmp_path: pathlib.Path, field: str, value: object
) -> None:
    """One fault, which names the field and what it holds."""
    [fault] = faults_of(tmp_path, **{field: value})
    assert field in fault
    assert json.dumps(value) in fault


@pytest.mark.parametrize("name", [*FIELDS, "n_inner"])
def test_a_size_that_is_no_positive_integer_is_a_fault(tmp_path: pathlib.Path, name: str) -> None:
    """One fault each, shown short; only n_inner may be null."""
    wrong = [0, -1, 2**31, 10**300, 1.0, 2.5, "8", True, [], {}]
    for value in [*wrong, *([None] if name != "n_inner" else [])]:
        [fault] = faults_of(tmp_path, **{name: value})
        assert fault.startswith(f"config field {name}: expected an integer from 1 to "), value
        assert len(fault) < 200
    assert read_fields(tmp_path, n_inner=None).n_inner == 32


_FLAGS: Final = (
    *("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings"),
    "reorder_and_upcast_attn",
)


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        (_FLAGS, [0, 1, "true", None], "true or false"),
        (["layer_norm_epsilon"], [0, 1, -1e-5, True, False, "1e-5", None, [1e-5]], ""),
        (["eos_token_id", "bos_token_id"], [True, 1.0, "9", [9, None], [[9]], {}], "token ids, "),
    ],
    ids=["flags", "epsilon", "token ids"],
)
def test_a_value_of_another_kind_or_beyond_its_range_is_a_fault(
    tmp_path: pathlib.Path, names: Sequence[str], values: Sequence[object], expected: str
) -> None:
    """No flag is 0, 1 or null, an epsilon lies between 0 and 1, an id is no list in a list."""
    for name, value in itertools.product(names, values):
        [fault] = faults_of(tmp_path, **{name: value})
        assert fault.startswith(f"config field {name}: expected {expected}"), value


def test_all_faults_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Seven wrong fields are seven faults of one error."""
    wrong = {
        **{"model_type": "bert", "n_layer": 0, "n_head": 3},  # of which 8 is no multiple
        **{"activation_function": "mish", "tie_word_embeddings": "no", "eos_token_id": "</s>"},
        "auto_map": ["x"],
    }
    faults = faults_of(tmp_path, **wrong)
    assert len(faults) == len(wrong)
    assert all(any(name in fault for fault in faults) for name in wrong)


def test_a_huge_number_of_layers_costs_no_memory(tmp_path: pathlib.Path) -> None:
    """Two thousand million layers are refused before anything is listed by layer."""
    tracemalloc.start()
    try:
        faults_of(tmp_path, n_layer=2_000_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# Code of the checkpoint's own.


@pytest.mark.parametrize("key", ["AutoConfig", "AutoModel", "AutoModelForCausalLM"])
def test_a_model_class_of_its_own_is_refused_by_name(tmp_path: pathlib.Path, key: str) -> None:
    """Even under GPT-2's own name: the class is there because it computes something else."""
    code = "modeling_gpt2.GPT2LMHeadModel"
    fields = {"auto_map": {key: code}, "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    [fault] = faults_of(tmp_path, **fields)
    assert fault.startswith(f'config field auto_map names code of its own, {{"{key}": "{code}"}}: ')
    assert fault.endswith("remove the field")


@pytest.mark.parametrize("auto_map", [None, {}, {"AutoTokenizer": ["tokenization_x.X", None]}])
def test_a_tokenizer_class_of_its_own_changes_no_logit(
    tmp_path: pathlib.Path, auto_map: object
) -> None:
    """What the tokenizer is, its files say."""
    assert read_fields(tmp_path, auto_map=auto_map) == read_fields(tmp_path)


# Token ids.


def test_generation_config_comes_before_config(tmp_path: pathlib.Path) -> None:
    """Field by field; null says nothing."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": [1, 2], "bos_token_id": None})
    config = read_fields(tmp_path, eos_token_id=9, bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((1, 2), 8)
    assert config.eos_origin == "generation_config.json"


def test_a_file_that_names_no_id_of_the_vocabulary_leaves_it_to_the_next(
    tmp_path: pathlib.Path,
) -> None:
    """generation_config.json's 50256 does not hide the ids in config.json that can be drawn."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 50256, "bos_token_id": -1})
    config = read_fields(tmp_path, eos_token_id=[50256, 3, -1, 49], bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((3, 49), 8)


# Files.


def test_faults_of_both_files_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """One is missing, the other damaged; the folder is named."""
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=str(tmp_path)) as caught:
        read_config(tmp_path)
    missing, damaged = caught.value.faults
    assert missing == "config.json is missing"
    assert damaged.startswith("generation_config.json is not a JSON object")


# What openai-community/gpt2 and every checkpoint that was converted in its time have in common.
_COMMON: Final = {
    **{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"]},
    **{"attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "initializer_range": 0.02},
    **{"bos_token_id": 50256, "eos_token_id": 50256, "vocab_size": 50257, "model_type": "gpt2"},
    **{"n_ctx": 1024, "n_positions": 1024, "layer_norm_epsilon": 1e-05},
    **{"summary_activation": None, "summary_type": "cls_index", "summary_use_proj": True},
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
# As transformers 4 writes them.
_FINE_TUNED: Final = {
    **{"_name_or_path": "gpt2", "torch_dtype": "float32", "use_cache": True, "n_inner": None},
    **{"add_cross_attention": False, "gradient_checkpointing": False, "pruned_heads": {}},
    **{"quantization_config": None, "reorder_and_upcast_attn": False, "scale_attn_weights": True},
    "scale_attn_by_inverse_layer_idx": False,
}


@pytest.mark.parametrize(
    ("name", "sizes", "fields"),
    [
        ("openai-community/gpt2", (12, 12, 768), {}),
        ("openai-community/gpt2-medium", (24, 16, 1024), {"predict_special_tokens": True}),
        ("openai-community/gpt2-large", (36, 20, 1280), {}),
        ("openai-community/gpt2-xl", (48, 25, 1600), {"output_past": True}),
        ("distilbert/distilgpt2", (6, 12, 768), {"_num_labels": 1, "id2label": {"0": "LABEL_0"}}),
        ("microsoft/DialoGPT-medium", (24, 16, 1024), {"task_specific_params": {}}),
        ("a fine-tuned one", (12, 12, 768), _FINE_TUNED),
    ],
)
def test_a_published_config_is_accepted_and_read(
    tmp_path: pathlib.Path, name: str, sizes: tuple[int, int, int], fields: dict[str, object]
) -> None:
    """Its sizes arrive, and whatever else it holds changes nothing."""
    named: dict[str, Any] = dict(zip(("n_layer", "n_head", "n_embd"), sizes, strict=True))
    named |= {"n_positions": 1024, "vocab_size": 50257}
    write_json(tmp_path / "config.json", _COMMON | named | fields)
    ids: dict[str, Any] = {"bos_token_id": 50256, "eos_token_ids": (50256,)}
    expected = GPT2Config(**named, **_DEFAULTS, **ids, n_inner=4 * sizes[2])
    assert read_config(tmp_path) == expected
