"""Claims about where an option's value comes from."""

from typing import Any

import pytest

from gpt2cli.config import OF_A_PROMPT, GenerationConfig, ModelConfig, Overflow, SamplingConfig
from gpt2cli.declarations import options_of
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.settings import Given, Settings

OPTIONS = {o.field: o for group in (*OF_A_PROMPT, ModelConfig) for o in options_of(group)}


def give(*layers: dict[str, Any], own: dict[str, Any] | None = None) -> Settings:
    """Return settings of layers, the nearest first, and of a model with values of its own."""
    given = tuple({name: Given(value) for name, value in layer.items()} for layer in layers)
    return Settings(OPTIONS, given).with_model(own or {})


def test_nothing_given_is_what_is_built_in() -> None:
    settings = give({}, {})
    assert settings.make(SamplingConfig) == SamplingConfig()
    assert settings.from_model == {}


def test_the_user_comes_before_the_model_and_the_model_before_what_is_built_in() -> None:
    """Each value by itself; what is told as the model's is only what is used of it."""
    own = {"temperature": 0.7, "top_p": 0.9, "min_p": 0.1}
    settings = give({"temperature": 0.5}, {"temperature": 0.6}, own=own)
    assert settings.make(SamplingConfig) == SamplingConfig(temperature=0.5, top_p=0.9, min_p=0.1)
    assert settings.from_model == {"top_p": 0.9, "min_p": 0.1}
    assert not give({"temperature": 0}, own={"temperature": 0.7}).make(SamplingConfig).draws


def test_each_configuration_takes_its_own_values() -> None:
    """Others in the same file or of the same command are passed over."""
    given = {"top_k": 3, "stop": ("a",), "overflow": Overflow.SLIDE, "seed": 1}
    settings = give(given, own={"top_p": 0.5, "max_new_tokens": 9, "eos_token_id": 0})
    assert settings.make(SamplingConfig) == SamplingConfig(top_k=3, top_p=0.5)
    assert settings.make(GenerationConfig) == GenerationConfig(
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
    assert give(own=own).make(SamplingConfig) == SamplingConfig()
    assert give(own=own).make(GenerationConfig) == GenerationConfig()


@pytest.mark.parametrize(
    "own",
    [
        {"temperature": -0.1},
        {"top_p": 1.5},
        {"max_new_tokens": -1},
        {"min_new_tokens": True},
        {"temperature": "0.7"},
        {"top_k": 40.0},
    ],
    ids=str,
)
def test_a_wrong_value_of_the_models_is_the_models_error(own: dict[str, Any]) -> None:
    """It names the file, the option and the value; the user gave none of it."""
    (name,) = own
    with pytest.raises(ModelError, match=rf"generation_config\.json: {name}: expected .+ found"):
        give(own=own)


def test_the_models_names_are_hugging_faces() -> None:
    """Two of ours are other ones, or not in it; JSON writes 1.0 as 1."""
    own = {"typical_p": 1, "no_repeat_ngram_size": 3, "min_new_tokens": 2, "temperature": 2}
    expected = SamplingConfig(typical_p=1.0, no_repeat_ngram=3, temperature=2.0)
    assert give(own=own).make(SamplingConfig) == expected
    assert give(own=own).make(GenerationConfig) == GenerationConfig(min_new_tokens=2)


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
    config = give(given, own=own).make(GenerationConfig)
    assert (config.min_new_tokens, config.max_new_tokens) == (least, most)


def test_limits_of_the_users_that_contradict_are_a_usage_error() -> None:
    for own in {}, {"max_new_tokens": 1000}, {"min_new_tokens": 1}:
        with pytest.raises(UsageError, match="min_new_tokens: expected at most"):
            give({"min_new_tokens": 9, "max_new_tokens": 5}, own=own).check()


def test_a_wrong_value_does_not_matter_where_the_user_said_it() -> None:
    settings = give({"top_k": 5}, own={"top_k": -1})
    assert (settings.values["top_k"], settings.from_model) == (5, {})


def test_what_the_user_gave_is_taken_back() -> None:
    settings = Settings(OPTIONS, ()).with_model({"top_k": 7})
    given = settings.over({"top_k": Given(2, "GPT2_TOP_K"), "top_p": Given(0.5)})
    taken_back = given.over({"top_k": Given(3)}).without({"top_k"})
    assert (taken_back.values["top_k"], taken_back.values["top_p"]) == (7, 0.5)


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        ({"temperature": 0.5}, {"greedy": True}, {"temperature": 0.5, "greedy": False}),
        ({"greedy": True}, {"temperature": 0.5}, {"temperature": 1.0, "greedy": True}),
        ({"greedy": False}, {"temperature": 0.5}, {"temperature": 0.5, "greedy": False}),
        ({"model": "a"}, {"model": "b", "revision": "c"}, {"model": "a", "revision": None}),
        ({"revision": "c"}, {"model": "b"}, {"model": "b", "revision": "c"}),
        ({"regex": "a"}, {"choice": ("b",)}, {"regex": "a", "choice": ()}),
        ({"json_schema": "{}"}, {"regex": "a"}, {"regex": None, "json_schema": "{}"}),
    ],
    ids=str,
)
def test_an_option_silences_what_means_the_same_farther_away(
    near: dict[str, Any], far: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Else `-t 0.5` would do nothing for who has `greedy = true` in the file."""
    values = give(near, far).values
    assert {name: values[name] for name in expected} == expected


def test_an_error_names_where_a_value_comes_from() -> None:
    """In the place of the option, and where another option is named beside it."""
    layers = ({"min_new_tokens": Given(9)}, {"max_new_tokens": Given(5, "GPT2_MAX_NEW_TOKENS")})
    with pytest.raises(UsageError) as caught:
        Settings(OPTIONS, layers).check()
    told = "min-new-tokens: expected at most GPT2_MAX_NEW_TOKENS, 5, found 9"
    assert caught.value.tell(lambda field: field.replace("_", "-")) == told
