"""Reads what each source says of options: the environment, the config file, a preset."""

import difflib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gpt2cli.config import SETTABLE
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import from_bytes
from gpt2cli.settings import Given, Layer, Settings, find_hidden
from gpt2cli.user_settings import (
    PRESETS,
    config_file,
    read_config,
    read_preset,
    read_variable,
    variable_of,
)

Source = Callable[[Iterable[Option]], Layer]  # reads a layer's values of options


def find_settings(
    options: Iterable[Option], flags: Mapping[str, Any], *, own: bool = True
) -> Settings:
    """Return the settings of a command from what the command line says; None: nothing.

    `own`: also from the user's environment and config file.

    Raises:
        UsageError: naming the option, or the variable or the file and its key, of an invalid value,
        or an unknown key.
    """
    taken = {option.field: option for option in options}
    said = {
        field: Given(taken[field].check(value))
        for field, value in flags.items()
        if value is not None
    }
    settings = Settings(taken, (said,))
    for read in _find_sources(taken, said) if own else ():
        silent = find_hidden(settings.given)  # errors there do no harm
        read_too = [o for o in taken.values() if o.settable and o.field not in silent]
        settings = Settings(taken, (*settings.layers, read(read_too)))
    return settings


def _find_sources(options: Mapping[str, Option], said: Layer) -> Sequence[Source]:
    """Return what reads the layers behind the command line."""
    if PRESETS in said:
        return [_preset(said[PRESETS].value), read_environment, read_file]
    named = read_variable(PRESETS) if PRESETS in options else None
    if named is not None:
        with naming_origin(PRESETS, variable_of(PRESETS)):
            return [read_environment, _preset(named), read_file]
    return [read_environment, read_file]


def _preset(name: str) -> Source:
    """Return what reads a preset.

    Raises:
        UsageError: as `read_preset`, or naming the file and an unknown key.
    """
    values, place = read_preset(name), f"{PRESETS}.{name}."
    _check_keys(values, place)
    return lambda options: _read_values(options, values, place)


def settable_options() -> list[Option]:
    """Return every option that has a variable and a key."""
    return [option for group in SETTABLE for option in options_of(group) if option.settable]


def find_option(name: str) -> Option:
    """Return the option of a key, with or without its dashes.

    Raises:
        UsageError: if there is none; suggests the nearest.
    """
    options = {option.field: option for option in settable_options()}
    key = name.lstrip("-").replace("-", "_")
    if key not in options:
        near = [known for known in options if key and known.startswith(key)]
        near = near or difflib.get_close_matches(key, options, n=1)
        hint = f"did you mean {' or '.join(near)}?" if near else "`gpt2 config show` lists them all"
        raise UsageError(f"there is no setting {name}", hint)
    return options[key]


def read_environment(options: Iterable[Option]) -> Layer:
    """Return the options that the environment sets.

    Raises:
        UsageError: naming the variable of an invalid value.
    """
    found = {}
    for option in options:
        text = read_variable(option.field)
        if text is not None:
            origin = variable_of(option.field)
            with naming_origin(option.field, origin):
                found[option.field] = Given(option.parse(from_bytes(text, option.field)), origin)
    return found


def read_file(options: Iterable[Option]) -> Layer:
    """Return the options that the config file sets.

    Raises:
        UsageError: naming the file and the key of an invalid value, or an unknown key.
    """
    values = read_config()
    _check_keys(values)  # all of them: a misspelt key would have no effect, without a word
    return _read_values(options, values)


def _read_values(options: Iterable[Option], values: Mapping[str, Any], place: str = "") -> Layer:
    found = {}
    for option in options:
        if option.field in values:
            origin = f"{config_file()}: {place}{option.field}"
            with naming_origin(option.field, origin):
                found[option.field] = Given(option.read(values[option.field]), origin)
    return found


@contextmanager
def naming_origin(field: str, origin: str) -> Iterator[None]:
    """Make errors about an option name where its value comes from."""
    try:
        yield
    except UsageError as error:
        error.origins = {field: origin}
        raise


def _check_keys(values: Mapping[str, Any], place: str = "") -> None:
    for key, value in values.items():
        try:
            find_option(key)
        except UsageError as error:
            in_table = isinstance(value, dict)
            fault = (
                f"expected settings outside of tables, found [{key}]" if in_table else str(error)
            )
            mended = "" if place else f"; `gpt2 config unset {shlex.quote(key)}` removes it"
            inside = f"{place.rstrip('.')}: " if place else ""
            raise UsageError(f"{config_file()}: {inside}{fault}{mended}") from error
