"""Claims about /set: the cases are made from the declarations, so that no option is left out."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gpt2cli.commands.chat_settings import ChatOptions, all_options, find_option
from gpt2cli.commands.option_values import DeclaredOption
from gpt2cli.commands.options import LimitOptions, OverflowChoice, SamplingOptions
from gpt2cli.errors import UsageError
from tests.gpt2cli.commands.runner import error_line, invoke

BARE: Final = ChatOptions(SamplingOptions(), LimitOptions(), {})

# A value within the range of each number, whatever its default. An option that is not here and
# fits no kind below fails the test that uses it: then it is to be added.
_NUMBERS: Final[Mapping[type, str]] = {int: "3", float: "0.25"}
_TEXTS: Final[Mapping[str, str]] = {"logit-bias": "7=2.5"}


def example(option: DeclaredOption) -> str:
    """Return another value than the default."""
    if option.repeatable:
        return _TEXTS.get(option.name, "some text")
    if option.kind is bool:
        return "on"
    if option.kind is OverflowChoice:
        return "slide"
    return _NUMBERS[type(option.parse("3"))]


def wrong(option: DeclaredOption) -> str:
    """Return what is no value of this option."""
    if option.repeatable:
        return '""'
    if option.kind is OverflowChoice:
        return "wrong"
    return "nan" if type(option.parse("3")) is float else "-1"


def values(options: ChatOptions) -> dict[str, Any]:
    """Return all that holds for a reply."""
    return options.describe()


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.name)
def test_every_option_can_be_set_and_taken_back(option: DeclaredOption) -> None:
    """By its name; nothing else changes but what it means."""
    before = values(BARE)
    changed = BARE.change(option.name, example(option))
    after = values(changed)

    also = {"temperature": {"greedy"}, "greedy": {"temperature"}}.get(option.name, set())
    assert before[option.name] != after[option.name]
    assert {name for name in after if after[name] != before[name]} <= {option.name} | also
    assert changed.settle() != BARE.settle()
    assert values(changed.change(option.name, "default")) == before


@pytest.mark.parametrize(
    "option", [o for o in all_options() if o.kind is not bool], ids=lambda option: option.name
)
def test_every_option_refuses_what_the_command_line_refuses(option: DeclaredOption) -> None:
    """In the same words, and leaves all as it was."""
    text = wrong(option)
    with pytest.raises(UsageError) as caught:
        BARE.change(option.name, text)
    told = str(caught.value)
    assert told.startswith(f"--{option.name}: ")

    argument = text.strip('"')
    result = invoke("chat", "-m", "/no/such", f"--{option.name}={argument}")
    assert result.exit_code == 2
    if option.kind is not OverflowChoice:  # Typer's own words
        assert error_line(result) == told


@pytest.mark.parametrize("name", ["top-k", "top_k", "--top-k", "--top_k"])
def test_a_name_may_be_written_as_elsewhere(name: str) -> None:
    """As on the command line, or as in a record."""
    assert find_option(name).name == "top-k"


@pytest.mark.parametrize("name", ["nosuch", "model", "threads", "top", "topk", "", "default"])
def test_what_is_no_option_is_an_error_that_lists_them(name: str) -> None:
    """Of those that name files or the model there is none."""
    with pytest.raises(UsageError, match=r"/set: there is no option .*; known are temperature, "):
        find_option(name)


def test_a_temperature_ends_greedy() -> None:
    """Else setting it would do nothing."""
    greedy = BARE.change("greedy", "on")
    assert greedy.settle()[0].sampling.temperature == 0
    assert greedy.change("temperature", "0.5").settle()[0].sampling.temperature == 0.5
    assert greedy.change("greedy", "off").settle() == BARE.settle()


def test_the_models_own_values_are_behind() -> None:
    """They hold until something else is set, and again afterwards."""
    options = ChatOptions(
        SamplingOptions(), LimitOptions(), {"temperature": 0.7, "max_new_tokens": 50}
    )
    assert values(options)["temperature"] == "0.7"
    assert values(options)["max-new-tokens"] == "50"
    changed = options.change("temperature", "1.5")
    assert changed.settle()[1] == {"max_new_tokens": 50}
    assert values(changed.change("temperature", "default")) == values(options)


def test_without_any_a_reply_has_at_most_128_tokens() -> None:
    """A chat's own default; `generate` has another."""
    assert BARE.settle()[0].generation.max_new_tokens == 128


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("stop", r'["\n", "."]', r"'\n' '.'"),
        ("stop", "[]", "none"),
        ("logit-bias", '["a=1", "7=-2.5"]', "'a'=1 '7'=-2.5"),
        ("ban", '" x"', "' x'"),
        ("ignore-eos", "on", "on"),
        ("seed", "7", "7"),
        ("overflow", "error", "error"),
    ],
)
def test_values_are_shown_as_they_are_written(name: str, text: str, shown: str) -> None:
    """Texts in quotes, switches as on and off."""
    assert values(BARE.change(name, text))[name] == shown
