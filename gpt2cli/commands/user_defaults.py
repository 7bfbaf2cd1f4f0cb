"""The user's own defaults: what the environment, then the config file, say of options.

The order of precedence is that of `cli.md`. A record's value, `/set` and a flag come before these,
the model's generation_config.json and what is built in after them (`gpt2cli.settings`).
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpt2cli.commands.option_values import DeclaredOption, declared_options
from gpt2cli.commands.options import (
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    ReportOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.commands.options.panels import LIMITS, MODEL, REPORTING, SAMPLING
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.user_settings import config_file, read_config, read_variable, variable_of

_PANELS: Final = (MODEL, SAMPLING, LIMITS, REPORTING)
_GROUPS: Final = (
    ModelOptions,
    SamplingOptions,
    SearchOptions,
    LimitOptions,
    ConstraintOptions,
    ReportOptions,
)

# Option -> options that say the same in another way, or nothing without it: what is farther from
# the user than the option itself does not count. `-t 0.5` ends a `greedy = true` of the file.
_TAKES_PLACE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("greedy",),
    "greedy": ("temperature",),
    "model": ("revision",),
    "choice": ("regex",),
    "regex": ("choice",),
    "json_schema": ("choice", "regex"),
}


@dataclass(frozen=True, slots=True)
class UserDefault:
    """A value, and where it stands: a variable, or a file and its key."""

    value: Any
    origin: str


def is_settable(option: DeclaredOption) -> bool:
    """Tell whether an option has a variable and a key: all of these panels that name no file."""
    return option.panel in _PANELS and option.kind is not Path


def settable_options() -> list[DeclaredOption]:
    """Return every option that has a variable and a key."""
    declared = [option for group in _GROUPS for option in declared_options(group)]
    return [option for option in declared if is_settable(option)]


def find_option(name: str) -> DeclaredOption:
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
        raise UsageError(f"there is no setting {name}; {hint}")
    return options[key]


def find_defaults(
    options: Iterable[DeclaredOption], given: Mapping[str, Any]
) -> dict[str, UserDefault]:
    """Return the user's own defaults of options that are not given (None: not), by field.

    Raises:
        UsageError: naming the variable, or the file and its key, of what is no value, and a key
            that there is not.
    """
    options = list(options)
    taken = {name: value for name, value in given.items() if value is not None}
    found: dict[str, UserDefault] = {}
    for read in (_read_environment, read_file):
        silent = taken.keys() | {
            other
            for name, value in taken.items()
            if value is not False  # --no-greedy says nothing of the temperature
            for other in _TAKES_PLACE_OF.get(name, ())
        }
        own = read([option for option in options if option.field not in silent])
        found |= own
        taken |= {name: default.value for name, default in own.items()}
    return found


@contextmanager
def naming_origins(origins: Mapping[str, str]) -> Iterator[None]:
    """Let an error about an option of a field say the field's origin in place of its flag.

    Of an option that is told beside it, and of a model that cannot be had, named or for want of a
    network, it says it too.
    """
    try:
        yield
    except UsageError as error:
        message = _name_origins(str(error), origins)
        if message == str(error):
            raise
        raise UsageError(message) from error
    except ModelError as error:
        if "model" in origins:
            error.add_note(f"(the model is named by {origins['model']})")
        if "offline" in origins and "--offline" in str(error):
            error.add_note(f"(--offline is from {origins['offline']}; --no-offline overrules it)")
        raise


def _name_origins(message: str, origins: Mapping[str, str]) -> str:
    beside = []
    for field, origin in origins.items():
        flag = "--" + field.replace("_", "-")
        if re.match(rf"{flag}(?![\w-])", message):
            message = origin + message.removeprefix(flag)
        elif re.search(rf"(?<=\s){flag}(?![\w-])", message):
            beside.append(f" ({flag} is from {origin})")
    return message + "".join(beside)


def _read_environment(options: Iterable[DeclaredOption]) -> dict[str, UserDefault]:
    found = {}
    for option in options:
        text = read_variable(option.field)
        if text is not None:
            origin = variable_of(option.field)
            with naming_origins({option.field: origin}):
                found[option.field] = UserDefault(option.parse_plain(text), origin)
    return found


def read_file(options: Iterable[DeclaredOption]) -> dict[str, UserDefault]:
    """Return what the config file says of options, by field.

    Raises:
        UsageError: naming the file and its key, as `find_defaults`.
    """
    values = read_config()
    _check_keys(values)
    found = {}
    for option in options:
        if option.field in values:
            origin = f"{config_file()}: {option.field}"
            with naming_origins({option.field: origin}):
                found[option.field] = UserDefault(option.read(values[option.field]), origin)
    return found


def _check_keys(values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        try:
            find_option(key)
        except UsageError as error:
            in_table = isinstance(value, dict)
            fault = f"expected settings in no table, found [{key}]" if in_table else error
            mended = f"`gpt2 config unset {shlex.quote(key)}` removes it"
            raise UsageError(f"{config_file()}: {fault}; {mended}") from error
