"""Claims about precedence: the cases are made from the declarations, so none is left out."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import pytest

from gpt2cli.commands.chat_settings import ChatOptions, all_options
from gpt2cli.commands.option_values import DeclaredOption
from gpt2cli.commands.start import give_constraint, give_limits, give_sampling, settle_options
from gpt2cli.settings import FROM_MODEL
from gpt2cli.tokenizer import Tokenizer
from gpt2cli.user_settings import variable_of
from tests.gpt2cli.batch.parsing import make_parser
from tests.gpt2cli.commands.settings_cases import (
    OPTIONS,
    Keep,
    Taken,
    as_flag,
    as_toml,
    take,
    values_of,
)

_OF_MODEL: Final = {ours: theirs for theirs, ours in FROM_MODEL.items()}
_OF_RECORDS: Final = [o for o in OPTIONS if o.panel in ("Sampling", "Limits")]

each_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.field)


def give(taken: Taken) -> Mapping[str, Any]:
    """Return the options of a request as `generate` and `batch` give them."""
    given = give_sampling(taken.sampling) | asdict(taken.search) | give_limits(taken.limits)
    return given | give_constraint(taken.constraint)


def settled(taken: Taken, field: str, own: Mapping[str, Any]) -> Any:
    """Return what holds in the end, where the model has a generation_config of its `own`."""
    configurations = settle_options(give(taken), own)
    return {**asdict(configurations.sampling), **asdict(configurations.generation)}[field]


@each_option
def test_a_flag_comes_before_the_environment_and_the_file(
    option: DeclaredOption, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a switch the one that turns it off, too."""
    file, variable, flag, other = values_of(option)
    keep(as_toml(option, file))
    monkeypatch.setenv(variable_of(option.field), variable)

    assert take(as_flag(option, flag))[option.field] == option.parse_plain(flag)
    assert take(as_flag(option, other))[option.field] == option.parse_plain(other)


@each_option
def test_the_environment_comes_before_the_file(
    option: DeclaredOption, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is empty says nothing."""
    file, variable, *_ = values_of(option)
    keep(as_toml(option, file))

    monkeypatch.setenv(variable_of(option.field), variable)
    assert take()[option.field] == option.parse_plain(variable)
    monkeypatch.setenv(variable_of(option.field), "")
    assert take()[option.field] == option.parse_plain(file)


@each_option
def test_the_file_comes_before_what_is_built_in(option: DeclaredOption, keep: Keep) -> None:
    """Which holds where nobody says anything; and a key may be written with dashes."""
    keep("")
    assert take()[option.field] == option.default
    line = as_toml(option, values_of(option)[0])
    for text in (line, line.replace(option.field, option.name, 1)):
        keep(text)
        assert take()[option.field] == option.parse_plain(values_of(option)[0])
        assert take()[option.field] != option.default


@pytest.mark.parametrize("field", _OF_MODEL)
def test_the_file_and_the_environment_come_before_the_model(
    field: str, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the model before what is built in."""
    option = next(option for option in OPTIONS if option.field == field)
    file, variable, model, _ = map(option.parse_plain, values_of(option))
    own = {_OF_MODEL[field]: model}

    assert settled(take(), field, own) == model
    assert settled(take(), field, {}) not in (file, variable, model)
    keep(as_toml(option, str(file)))
    assert settled(take(), field, own) == file
    monkeypatch.setenv(variable_of(field), str(variable))
    assert settled(take(), field, own) == variable


@pytest.mark.parametrize("option", _OF_RECORDS, ids=lambda option: option.field)
def test_a_record_comes_before_the_flag_the_environment_and_the_file(
    option: DeclaredOption,
    ascii_tokenizer: Tokenizer,
    keep: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record with this option is what it would be if nothing else were said."""
    file, variable, flag, record = values_of(option)
    value = option.parse_plain(record)
    value = {"4": 4.0} if option.field == "logit_bias" else value
    fields = {"prompt": "x", "seed": 1, "max_new_tokens": 5, option.field: value}
    line = json.dumps(fields).encode()

    def build(taken: Taken) -> Any:
        item = make_parser(ascii_tokenizer, given=give(taken)).parse(line, 0)
        assert item.error is None
        assert item.prepared is not None
        return item.prepared.request

    keep("")
    alone = build(take())
    keep(as_toml(option, file))
    monkeypatch.setenv(variable_of(option.field), variable)
    assert build(take()) == alone
    assert build(take(as_flag(option, flag))) == alone


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.field)
def test_set_in_a_chat_comes_before_all_and_default_takes_back_to_the_environment(
    option: DeclaredOption, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the flag gave is taken back with it."""
    file, variable, flag, typed = values_of(option)
    keep(as_toml(option, file))
    monkeypatch.setenv(variable_of(option.field), variable)
    chat = open_chat(as_flag(option, flag))

    assert tell(chat.change(option.name, typed), option) == tell(
        open_chat(as_flag(option, typed)), option
    )
    assert tell(chat.change(option.name, "default"), option) == tell(open_chat(), option)
    monkeypatch.delenv(variable_of(option.field))
    keep("")
    assert tell(chat.change(option.name, "default"), option) == tell(open_chat(), option)


def open_chat(*arguments: str) -> ChatOptions:
    """Return the options of a chat that begins."""
    taken = take(*arguments)
    return ChatOptions(taken.sampling, taken.limits, {})


def tell(chat: ChatOptions, option: DeclaredOption) -> str:
    """Return the value in force."""
    return chat.describe()[option.name]
