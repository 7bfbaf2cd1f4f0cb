"""The table of options: ranges, what options ask of one another, and what is greedy."""

import math
from typing import Any

import pytest

from gpt2cli.config import (
    OF_A_PROMPT,
    SETTABLE,
    BeamConfig,
    ConstraintConfig,
    GenerationConfig,
    Overflow,
    SampleConfig,
    SamplingConfig,
    values_of,
)
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import BIAS, NUMBER, WHOLE
from gpt2cli.option_rules import check_together

SMALLEST = 5e-324


@pytest.mark.parametrize(
    ("option", "expected", "values"),
    [
        (
            "temperature",
            "number 0 or more",
            [-1.0, -SMALLEST, math.nan, math.inf, -math.inf, 10**400],
        ),
        ("top_k", "whole number 0 or more", [-1]),
        ("top_p", "number between 0 and 1", [-SMALLEST, 1.0000001, math.nan, math.inf]),
        ("min_p", "number between 0 and 1", [-SMALLEST, 1.0000001, math.nan, -math.inf]),
        ("typical_p", "number above 0, up to 1", [0.0, -0.5, 1.0000001, math.nan, math.inf]),
        ("repetition_penalty", "number above 0", [0.0, -1.0, math.nan, math.inf, 10**400]),
        ("presence_penalty", "number between -2 and 2", [-2.1, 2.1, math.nan, math.inf, 10**400]),
        ("frequency_penalty", "number between -2 and 2", [-2.1, 2.1, math.nan, -math.inf, 10**400]),
        ("no_repeat_ngram", "whole number 0 or more", [-1]),
    ],
)
def test_a_value_out_of_range_is_a_usage_error(
    option: str, expected: str, values: list[float]
) -> None:
    """The error names the option's field, its range and the value found."""
    for value in values:
        with pytest.raises(UsageError) as caught:
            SamplingConfig(**{option: value})  # type: ignore[arg-type]
        told = str(value) if len(str(value)) <= 60 else f"{str(value)[:60]}…"
        assert str(caught.value) == f"{option}: expected a {expected}, found {told}"


def test_a_configuration_can_be_a_key() -> None:
    """Rows of one kind are found by it."""
    one, other = (SamplingConfig(logit_bias=(("a", 1.0),), ban=("b",)) for _ in range(2))
    assert {one: 1}[other] == 1


@pytest.mark.parametrize(
    ("temperature", "draws"),
    [(0.0, False), (1e-9, False), (1e-320, False), (1e-5, True), (1.0, True), (1e9, True)],
)
def test_a_temperature_near_zero_is_greedy(temperature: float, draws: bool) -> None:
    """Dividing by so little would overflow: the best token is taken."""
    assert SamplingConfig(temperature=temperature).draws is draws
    assert not SamplingConfig(temperature=temperature, greedy=True).draws


ALL = [option for group in dict.fromkeys((*SETTABLE, *OF_A_PROMPT)) for option in options_of(group)]


@pytest.mark.parametrize("option", ALL, ids=lambda option: option.field)
def test_every_default_is_a_value_of_its_option(option: Option) -> None:
    """And so is what turns it off; a number has a range."""
    option.check(option.default)
    if option.off and option.kind in (NUMBER, WHOLE):
        option.parse(option.off.partition(":")[0])
    assert (option.within is not None) is (option.kind in (NUMBER, WHOLE, BIAS))


def test_a_field_means_one_option() -> None:
    """Records, the environment and the config file name options by it alone."""
    assert len({option.field for option in ALL}) == len(ALL)


SOME = values_of(GenerationConfig(), BeamConfig(), ConstraintConfig(), SampleConfig())


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"min_new_tokens": 6, "max_new_tokens": 5},
            "min_new_tokens: expected at most max_new_tokens, 5, found 6",
        ),
        ({"regex": "a", "choice": ("b",)}, "regex: expected no choice together with it"),
        ({"beams": 2, "samples": 3}, "samples: expected at most beams, 2, found 3"),
        (
            {"beams": 2, "overflow": Overflow.SLIDE},
            "overflow: expected stop or error with beams, found slide",
        ),
        ({"beams": 2, "json_schema": "{}"}, "json_schema: expected no beams together with it"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_a_usage_error(
    values: dict[str, Any], told: str
) -> None:
    """It names both; where one of them is not there nothing is asked."""
    with pytest.raises(UsageError) as caught:
        check_together(SOME | values)
    assert str(caught.value) == told
    check_together({next(iter(values)): next(iter(values.values()))})


def test_configurations_check_themselves_when_they_are_built() -> None:
    with pytest.raises(UsageError, match="min_new_tokens: expected at most max_new_tokens"):
        GenerationConfig(min_new_tokens=2, max_new_tokens=1)
    with pytest.raises(UsageError, match="regex: expected no choice together with it"):
        ConstraintConfig(choice=("a",), regex="b")
