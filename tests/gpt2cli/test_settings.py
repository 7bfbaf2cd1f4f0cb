"""Claims about where an option's value comes from."""

from typing import Any

import pytest

from gpt2cli.errors import ModelError, UsageError
from gpt2cli.generation import GenerationConfig, Overflow
from gpt2cli.sampling import SamplingConfig
from gpt2cli.settings import settle


def test_nothing_given_is_what_is_built_in() -> None:
    """None is nothing given; nothing is the model's then."""
    settled = settle(SamplingConfig, {"temperature": None, "top_k": None}, {})

    assert settled.config == SamplingConfig()
    assert settled.from_model == {}


def test_the_user_comes_before_the_model_and_the_model_before_what_is_built_in() -> None:
    """Each value by itself; what is told as the model's is only what is used of it."""
    settled = settle(
        SamplingConfig,
        {"temperature": 0.5, "top_p": None},
        {"temperature": 0.7, "top_p": 0.9, "min_p": 0.1},
    )

    assert settled.config == SamplingConfig(temperature=0.5, top_p=0.9, min_p=0.1)
    assert settled.from_model == {"top_p": 0.9, "min_p": 0.1}


@pytest.mark.parametrize("value", [0, 0.0])
def test_a_zero_of_the_users_is_something_given(value: float) -> None:
    """It is not taken for nothing."""
    assert settle(SamplingConfig, {"temperature": value}, {"temperature": 0.7}).config.greedy


def test_each_configuration_takes_its_own_values() -> None:
    """Others in the same file or of the same command are passed over."""
    given = {"top_k": 3, "stop": ("a",), "overflow": Overflow.SLIDE, "seed": 1}
    own = {"top_p": 0.5, "max_new_tokens": 9, "eos_token_id": 0}

    assert settle(SamplingConfig, given, own).config == SamplingConfig(top_k=3, top_p=0.5)
    assert settle(GenerationConfig, given, own).config == GenerationConfig(
        stop=("a",), overflow=Overflow.SLIDE, max_new_tokens=9
    )


@pytest.mark.parametrize(
    "own",
    [
        {"do_sample": False, "max_length": 5, "task_specific_params": {"top_k": 1}},
        {"stop": ["x"], "ignore_eos": True, "overflow": "slide"},
        {"temperature": None, "top_k": None},
        {"epsilon_cutoff": "x", "num_beams": -1, "presence_penalty": 1.0},
    ],
    ids=["ignored", "ours alone", "null", "unknown"],
)
def test_what_is_not_the_models_to_say_is_ignored(own: dict[str, Any]) -> None:
    """We sample unless told otherwise, and count new tokens only."""
    assert settle(SamplingConfig, {}, own).config == SamplingConfig()
    assert settle(GenerationConfig, {}, own).config == GenerationConfig()


@pytest.mark.parametrize(
    "own",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": 1.5},
        {"min_p": -1},
        {"repetition_penalty": 0},
        {"typical_p": 0},
        {"top_k": -1},
        {"temperature": "0.7"},
        {"temperature": True},
        {"temperature": [0.7]},
        {"top_k": 40.0},
        {"top_k": 1.5},
        {"top_k": False},
        {"top_k": {}},
    ],
    ids=str,
)
def test_a_wrong_value_of_the_models_is_the_models_error(own: dict[str, Any]) -> None:
    """It names the file, the option and the value; the user gave none of it."""
    (name,) = own
    option = f"--{name.replace('_', '-')}"

    with pytest.raises(ModelError, match=rf"generation_config\.json: {option}: expected .+ found"):
        settle(SamplingConfig, {}, own)


def test_the_models_names_are_hugging_faces() -> None:
    """Two of ours are other ones, or not in it."""
    own = {"typical_p": 0.5, "no_repeat_ngram_size": 3, "min_new_tokens": 2}

    assert settle(SamplingConfig, {}, own).config == SamplingConfig(
        typical_p=0.5, no_repeat_ngram=3
    )
    assert settle(GenerationConfig, {}, own).config == GenerationConfig(min_new_tokens=2)


@pytest.mark.parametrize(
    ("given", "own", "least", "most"),
    [
        ({}, {"min_new_tokens": 300}, 256, 256),
        ({}, {"min_new_tokens": 9, "max_new_tokens": 5}, 5, 5),
        ({"max_new_tokens": 1000}, {"min_new_tokens": 300}, 300, 1000),
        ({"max_new_tokens": 5}, {"min_new_tokens": 300}, 5, 5),
        ({"max_new_tokens": 0}, {"min_new_tokens": 300, "max_new_tokens": 400}, 0, 0),
        ({"min_new_tokens": 50}, {"max_new_tokens": 20}, 50, 50),
        ({"min_new_tokens": 50}, {"max_new_tokens": 60}, 50, 60),
    ],
)
def test_the_models_limits_give_way_to_each_other_and_to_the_users(
    given: dict[str, Any], own: dict[str, Any], least: int, most: int
) -> None:
    """As in Hugging Face, where a completion never has more than the most."""
    config = settle(GenerationConfig, given, own).config

    assert (config.min_new_tokens, config.max_new_tokens) == (least, most)


def test_a_commands_own_limit_is_one_too() -> None:
    """That of chat is 128."""
    settled = settle(
        GenerationConfig, {}, {"min_new_tokens": 200}, built_in={"max_new_tokens": 128}
    )

    assert (settled.config.min_new_tokens, settled.config.max_new_tokens) == (128, 128)


def test_limits_of_the_users_that_contradict_are_a_usage_error() -> None:
    """Whatever the model says."""
    for own in {}, {"max_new_tokens": 1000}, {"min_new_tokens": 1}:
        with pytest.raises(UsageError, match="--min-new-tokens: expected at most"):
            settle(GenerationConfig, {"min_new_tokens": 9, "max_new_tokens": 5}, own)


@pytest.mark.parametrize("value", [-1, 1.5, "9", True])
def test_a_wrong_limit_of_the_models_is_too(value: Any) -> None:
    """Limits as well as sampling."""
    for name in "max_new_tokens", "min_new_tokens":
        with pytest.raises(ModelError, match=f"--{name.replace('_', '-')}: expected"):
            settle(GenerationConfig, {}, {name: value})


def test_a_wrong_value_does_not_matter_where_the_user_said_it() -> None:
    """The model's own is not looked at then."""
    settled = settle(SamplingConfig, {"top_k": 5}, {"top_k": -1})

    assert (settled.config.top_k, settled.from_model) == (5, {})


def test_a_wrong_value_of_the_users_is_a_usage_error() -> None:
    """Also beside values of the model's."""
    with pytest.raises(UsageError, match="--top-p"):
        settle(SamplingConfig, {"top_p": 2.0}, {"top_k": 5})


def test_a_whole_number_is_a_number_for_the_model() -> None:
    """JSON writes 1.0 as 1."""
    assert settle(SamplingConfig, {}, {"temperature": 1}).config == SamplingConfig()
