"""config.json: what is read, what is refused, and by which words."""

import json
import pathlib
import tracemalloc

import pytest

from export.config import ACTIVATIONS, GPT2Config, read_config
from tests.export.config_folders import FIELDS, faults_of, read_fields, write_json


def test_the_smallest_config_gets_the_defaults_of_gpt2(tmp_path: pathlib.Path) -> None:
    """Defaults are those of Hugging Face's GPT2Config; ids that no file names stay unknown."""
    assert read_fields(tmp_path) == GPT2Config(
        n_layer=3,
        n_head=2,
        n_embd=8,
        n_positions=16,
        vocab_size=50,
        n_inner=32,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-5,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_ids=(),
    )


def test_every_field_is_read(tmp_path: pathlib.Path) -> None:
    """Each field that is not at its default arrives."""
    config = read_fields(
        tmp_path,
        n_inner=12,
        activation_function="relu",
        layer_norm_epsilon=0.001,
        scale_attn_weights=False,
        scale_attn_by_inverse_layer_idx=True,
        tie_word_embeddings=False,
        reorder_and_upcast_attn=True,
        bos_token_id=0,
        eos_token_id=49,
    )
    assert (config.n_inner, config.activation, config.layer_norm_epsilon) == (12, "relu", 0.001)
    assert not config.scale_attn_weights
    assert config.scale_attn_by_inverse_layer_idx
    assert not config.tie_word_embeddings
    assert (config.bos_token_id, config.eos_token_ids) == (0, (49,))


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


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_every_activation_is_known_by_its_hugging_face_name(
    tmp_path: pathlib.Path, name: str
) -> None:
    """Each name of the table is read as the formula beside it."""
    assert read_fields(tmp_path, activation_function=name).activation == ACTIVATIONS[name]


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


@pytest.mark.parametrize("value", [0, -1, 2**31, 10**300, 1.0, 2.5, "8", True, None, [], {}])
@pytest.mark.parametrize("name", [*sorted(FIELDS), "n_inner"])
def test_a_size_that_is_no_positive_integer_is_a_fault(
    tmp_path: pathlib.Path, name: str, value: object
) -> None:
    """One fault each, shown short; only n_inner may be null."""
    if (name, value) == ("n_inner", None):
        assert read_fields(tmp_path, n_inner=None).n_inner == 32
        return
    [fault] = faults_of(tmp_path, **{name: value})
    assert fault.startswith(f"config field {name}: expected an integer from 1 to ")
    assert len(fault) < 200


@pytest.mark.parametrize("value", [0, 1, -1e-5, True, False, "1e-5", None, [1e-5]])
def test_an_epsilon_outside_0_and_1_is_a_fault(tmp_path: pathlib.Path, value: object) -> None:
    """As are other kinds of values."""
    [fault] = faults_of(tmp_path, layer_norm_epsilon=value)
    assert fault.startswith("config field layer_norm_epsilon")


@pytest.mark.parametrize(
    "name",
    [
        "scale_attn_weights",
        "scale_attn_by_inverse_layer_idx",
        "tie_word_embeddings",
        "reorder_and_upcast_attn",
    ],
)
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_a_flag_that_is_no_boolean_is_a_fault(
    tmp_path: pathlib.Path, name: str, value: object
) -> None:
    """0, 1, text and null are not true or false."""
    [fault] = faults_of(tmp_path, **{name: value})
    assert fault.startswith(f"config field {name}: expected true or false")


def test_n_embd_must_be_a_multiple_of_n_head(tmp_path: pathlib.Path) -> None:
    """8 does not divide among 3 heads."""
    assert faults_of(tmp_path, n_head=3) == ("n_embd 8 is not a multiple of n_head 3",)


def test_all_faults_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Six wrong fields are six faults of one error."""
    faults = faults_of(
        tmp_path,
        model_type="bert",
        n_layer=0,
        activation_function="mish",
        tie_word_embeddings="no",
        eos_token_id="</s>",
        auto_map=[],
    )
    named = (
        "model_type",
        "n_layer",
        "activation",
        "tie_word_embeddings",
        "eos_token_id",
        "auto_map",
    )
    assert len(faults) == len(named)
    assert all(any(name in fault for fault in faults) for name in named)


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
    assert fault.startswith(f'config field auto_map names code of its own, "{code}" as {key}: ')
    assert fault.endswith("remove the field")


@pytest.mark.parametrize("auto_map", [None, {}, {"AutoTokenizer": ["tokenization_x.X", None]}])
def test_a_tokenizer_class_of_its_own_changes_no_logit(
    tmp_path: pathlib.Path, auto_map: object
) -> None:
    """What the tokenizer is, its files say."""
    assert read_fields(tmp_path, auto_map=auto_map) == read_fields(tmp_path)
