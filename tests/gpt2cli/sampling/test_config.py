"""The sampling options: their ranges, both ends of each, and what is greedy."""

import math

import pytest

from gpt2cli.errors import UsageError
from gpt2cli.sampling import SamplingConfig

SMALLEST = 5e-324
LARGEST = 1.7976931348623157e308


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": SMALLEST},
        {"temperature": LARGEST},
        {"top_k": 0},
        {"top_k": 10**400},
        {"top_p": 0.0},
        {"top_p": 1.0},
        {"min_p": 0.0},
        {"min_p": 1.0},
        {"repetition_penalty": SMALLEST},
        {"repetition_penalty": LARGEST},
    ],
)
def test_both_ends_of_each_range_are_allowed(options: dict[str, float]) -> None:
    """The range that the help names includes its ends."""
    SamplingConfig(**options)  # type: ignore[arg-type]  # top_k is an int here


@pytest.mark.parametrize(
    ("option", "expected", "values"),
    [
        ("temperature", "0 or more", [-1.0, -SMALLEST, math.nan, math.inf, -math.inf, 10**400]),
        ("top_k", "0 or more", [-1]),
        ("top_p", "between 0 and 1", [-SMALLEST, 1.0000001, math.nan, math.inf]),
        ("min_p", "between 0 and 1", [-SMALLEST, 1.0000001, math.nan, -math.inf]),
        ("repetition_penalty", "above 0", [0.0, -1.0, math.nan, math.inf, 10**400]),
    ],
)
def test_a_value_out_of_range_is_a_usage_error(
    option: str, expected: str, values: list[float]
) -> None:
    """The error names the option as it is typed, its range and the value found."""
    for value in values:
        with pytest.raises(UsageError) as caught:
            SamplingConfig(**{option: value})  # type: ignore[arg-type]
        name = option.replace("_", "-")
        assert str(caught.value) == f"--{name}: expected a number {expected}, found {value}"


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 1e-320])
def test_a_temperature_near_zero_is_greedy(temperature: float) -> None:
    """Dividing by so little would overflow: the best token is taken."""
    assert SamplingConfig(temperature=temperature).greedy


@pytest.mark.parametrize("temperature", [1e-5, 1.0, 1e9])
def test_a_larger_temperature_is_not_greedy(temperature: float) -> None:
    """From 1e-5 on a token is drawn."""
    assert not SamplingConfig(temperature=temperature).greedy
