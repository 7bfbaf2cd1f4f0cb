"""Claims about precedence: the cases are made from the declarations, so none is left out."""

import json
from typing import Any, Final

import pytest

from gpt2cli.batch.items import read_options
from gpt2cli.chat.commands import all_options, change_setting, describe_settings
from gpt2cli.config import OF_A_PROMPT
from gpt2cli.option_kinds import Option, options_of
from gpt2cli.user_settings import variable_of
from tests.gpt2cli.commands.settings_cases import (
    OPTIONS,
    Keep,
    as_flag,
    as_toml,
    open_settings,
    take,
    values_of,
)

_OF_MODEL: Final = [option for option in OPTIONS if option.hugging_face]
_OF_RECORDS: Final = {option.field for group in OF_A_PROMPT for option in options_of(group)}

each_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.field)


@each_option
def test_a_flag_comes_before_the_environment_that_before_the_file_that_before_what_is_built_in(
    option: Option, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a switch the flag that turns it off, too; a variable that is empty says nothing."""
    file, variable, flag, other = values_of(option)
    keep("")
    assert take()[option.field] == option.default
    line = as_toml(option, file)
    for text in (line.replace(option.field, option.name, 1), line):  # with dashes, too
        keep(text)
        assert take()[option.field] == option.parse(file) != option.default
    monkeypatch.setenv(variable_of(option.field), "")
    assert take()[option.field] == option.parse(file)
    monkeypatch.setenv(variable_of(option.field), variable)
    assert take()[option.field] == option.parse(variable)
    assert take(as_flag(option, flag))[option.field] == option.parse(flag)
    assert take(as_flag(option, other))[option.field] == option.parse(other)


@pytest.mark.parametrize("option", _OF_MODEL, ids=lambda option: option.field)
def test_the_file_comes_before_the_model_and_the_model_before_what_is_built_in(
    option: Option, keep: Keep
) -> None:
    """It is told which values are the model's own."""
    file, model = (option.parse(value) for value in values_of(option)[:2])
    own = {option.hugging_face: model}

    settings = open_settings().with_model(own)
    assert settings.values[option.field] == model
    assert settings.from_model == {option.field: model}
    keep(as_toml(option, str(file)))
    settings = open_settings().with_model(own)
    assert (settings.values[option.field], settings.from_model) == (file, {})


@pytest.mark.parametrize(
    "option", [o for o in OPTIONS if o.field in _OF_RECORDS], ids=lambda option: option.field
)
def test_a_record_comes_before_the_flag_the_environment_and_the_file(
    option: Option, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with this option is what it would be if nothing else were said."""
    file, variable, flag, record = values_of(option)
    value: Any = option.parse(record)
    value = {"4": 4.0} if option.field == "logit_bias" else value
    own = read_options(json.loads(json.dumps({option.field: value})))

    keep(as_toml(option, file))
    monkeypatch.setenv(variable_of(option.field), variable)
    for arguments in ((), (as_flag(option, flag),)):
        settings = open_settings(*arguments).over(own)
        assert settings.values[option.field] == option.parse(record)


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.field)
def test_set_in_a_chat_comes_before_all_and_default_takes_back_to_the_environment(
    option: Option, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the flag gave is taken back with it."""
    file, variable, flag, typed = values_of(option)
    keep(as_toml(option, file))
    monkeypatch.setenv(variable_of(option.field), variable)
    chat = open_settings(as_flag(option, flag))

    changed = change_setting(chat, option, typed)
    assert changed.values[option.field] == option.parse(typed)
    assert describe_settings(change_setting(changed, option, "default")) == describe_settings(
        open_settings()
    )
