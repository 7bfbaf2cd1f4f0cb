"""Claims about /set: the cases are made from the declarations, so that no option is left out."""

from collections.abc import Mapping
from typing import Final

import pytest

from gpt2cli.chat.settable import all_options, change_setting, describe_settings, find_option
from gpt2cli.declarations import Option
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import NUMBER, SWITCH, WHOLE, Kind
from gpt2cli.options import spell_flag
from gpt2cli.settings import Settings
from tests.gpt2cli.runner import error_line, invoke

BARE: Final = Settings({option.field: option for option in all_options()}, ())

# A value within the range of each number, whatever its default. An option that is not here and
# fits no kind below fails the test that uses it: then it is to be added.
_NUMBERS: Final[Mapping[Kind, str]] = {WHOLE: "3", NUMBER: "0.25"}
_OF_ONE: Final[Mapping[str, str]] = {"logit-bias": "7=2.5", "stop-token": "3", "dry-base": "2.5"}
_WRONG: Final[Mapping[str, str]] = {"repeat-last-n": "-2"}


def example(option: Option) -> str:
    if option.name in _OF_ONE:
        return _OF_ONE[option.name]
    if option.repeatable:
        return "some text"
    if option.kind is SWITCH:
        return "on"
    if option.field == "overflow":
        return "slide"
    return _NUMBERS[option.kind]


def wrong(option: Option) -> str:
    if option.repeatable:
        return '""'
    if option.field == "overflow":
        return "wrong"
    return _WRONG.get(option.name, "nan" if option.kind is NUMBER else "-1")


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.name)
def test_every_option_can_be_set_and_taken_back(option: Option) -> None:
    """By its name; nothing else changes but what it means."""
    before = describe_settings(BARE)
    changed = change_setting(BARE, option, example(option))
    after = describe_settings(changed)
    also = {"temperature": {"greedy"}, "greedy": {"temperature"}}.get(option.name, set())
    assert before[option.name] != after[option.name]
    assert {name for name in after if after[name] != before[name]} <= {option.name} | also
    assert describe_settings(change_setting(changed, option, "default")) == before


@pytest.mark.parametrize(
    "option", [o for o in all_options() if o.kind is not SWITCH], ids=lambda option: option.name
)
def test_every_option_refuses_what_the_command_line_refuses(option: Option) -> None:
    text = wrong(option)
    with pytest.raises(UsageError) as caught:
        change_setting(BARE, option, text)
    told = caught.value.tell(spell_flag)
    assert told.startswith(f"--{option.name}: ")
    argument = text.strip('"')
    result = invoke("chat", "-m", "/no/such", f"--{option.name}={argument}")
    assert result.exit_code == 2
    assert error_line(result) == told


@pytest.mark.parametrize("name", ["top-k", "top_k", "--top-k", "--top_k"])
def test_a_name_may_be_written_as_elsewhere(name: str) -> None:
    assert find_option(name).name == "top-k"


@pytest.mark.parametrize("name", ["nosuch", "model", "threads", "top", "topk", "", "default"])
def test_what_is_no_option_is_an_error_that_lists_them(name: str) -> None:
    """Of those that name files or the model there is none."""
    with pytest.raises(UsageError, match=r"/set: there is no option .*; known are temperature, "):
        find_option(name)


def test_the_models_own_values_are_behind() -> None:
    """They hold until something else is set, and again afterwards."""
    settings = BARE.with_model({"temperature": 0.7, "max_new_tokens": 50})
    assert describe_settings(settings)["temperature"] == "0.7"
    assert describe_settings(settings)["max-new-tokens"] == "50"
    changed = change_setting(settings, find_option("temperature"), "1.5")
    assert changed.from_model == {"max_new_tokens": 50}
    assert describe_settings(
        change_setting(changed, find_option("temperature"), "default")
    ) == describe_settings(settings)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("stop", r'["\n", "."]', r"'\n' '.'"),
        ("stop", "[]", "none"),
        ("logit-bias", '["a=1", "7=-2.5"]', "'a'=1 '7'=-2.5"),
        ("ignore-eos", "on", "on"),
    ],
)
def test_values_are_shown_as_they_are_written(name: str, text: str, shown: str) -> None:
    assert describe_settings(change_setting(BARE, find_option(name), text))[name] == shown


def test_ids_may_be_set_as_a_json_array() -> None:
    """As the environment and the config file have them."""
    changed = change_setting(BARE, find_option("stop-token"), "[1, 20]")
    assert describe_settings(changed)["stop-token"] == "1 20"
