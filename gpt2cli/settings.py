"""Where each option's value comes from: the source nearest to the user wins.

A record of a batch or `/set` > the command line > the environment > the config file > the model's
own generation_config.json > what is built in. A preset comes right behind what names it, the
command line or the environment.
"""

import dataclasses
import difflib
import functools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gpt2cli.config import SETTABLE
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import Gpt2Error, ModelError, UsageError
from gpt2cli.option_kinds import from_bytes
from gpt2cli.option_rules import TAKES_PLACE_OF, check_together
from gpt2cli.user_settings import (
    PRESETS,
    config_file,
    read_config,
    read_preset,
    read_variable,
    variable_of,
)

T = TypeVar("T")

_MODEL: Final = "the model's generation_config.json"


@dataclass(frozen=True, slots=True)
class Given:
    """A value that was given, and by what: a variable, or a file and its key.

    Without an origin, errors name only the option.
    """

    value: Any
    origin: str = ""


Layer = Mapping[str, Given]  # by field
Source = Callable[[Iterable[Option]], Layer]  # reads a layer's values of options


@dataclass(frozen=True)
class Settings:
    """The values of a command's options, by field."""

    options: Mapping[str, Option]
    layers: tuple[Layer, ...]  # the nearest to the user first

    def over(self, layer: Layer) -> "Settings":
        """Return the settings with a layer that is nearer to the user than all others."""
        return dataclasses.replace(self, layers=(layer, *self.layers))

    def behind(self, layer: Layer) -> "Settings":
        """Return the settings with a layer that is farther from the user than all others."""
        return dataclasses.replace(self, layers=(*self.layers, layer))

    def with_model(self, generation_config: Mapping[str, Any]) -> "Settings":
        """Return the settings with the model's own values behind the user's.

        Values that the user gave are not read from the model, so that a broken one can be
        overridden.

        Raises:
            ModelError: if one of them is invalid or out of range.
        """
        theirs = {o.hugging_face: o for o in self.options.values() if o.hugging_face}
        own = {}
        for key, option in theirs.items():
            value = generation_config.get(key)
            if value is not None and option.field not in self.given:
                try:
                    own[option.field] = Given(option.read(value), _MODEL)
                except UsageError as error:
                    raise ModelError(f"{_MODEL}: {error}") from error
        return dataclasses.replace(self, layers=(*self.layers, own))

    def without(self, fields: Iterable[str]) -> "Settings":
        """Return the settings without the user's values of these options."""
        layers = tuple(
            {name: g for name, g in layer.items() if g.origin == _MODEL or name not in fields}
            for layer in self.layers
        )
        return dataclasses.replace(self, layers=layers)

    @functools.cached_property
    def given(self) -> Layer:
        """The value of each option that was set, from the source nearest to the user.

        An option hides those that mean the same farther from the user, unless it is an off switch:
        --no-greedy leaves the temperature alone.
        """
        found: dict[str, Given] = {}
        for layer in self.layers:
            silent = _silence(found)
            found |= {name: given for name, given in layer.items() if name not in silent}
        return found

    @functools.cached_property
    def values(self) -> Mapping[str, Any]:
        """The value of every option. The model's limits give way to those that were asked for.

        Its least number of tokens is never more than the most allowed, as in Hugging Face; its most
        is never less than the least that the user asked for.
        """
        values = {field: option.default for field, option in self.options.items()}
        values |= {field: given.value for field, given in self.given.items()}
        if values.get("min_new_tokens", 0) > values.get("max_new_tokens", 0):
            if self._is_models("min_new_tokens"):
                values["min_new_tokens"] = values["max_new_tokens"]
            elif self._is_models("max_new_tokens"):
                values["max_new_tokens"] = values["min_new_tokens"]
        return values

    @property
    def from_model(self) -> Mapping[str, Any]:
        """The values in force that are the model's own."""
        return {field: self.values[field] for field in self.given if self._is_models(field)}

    def make(self, group: type[T]) -> T:
        """Build a group of options; one that the command does not take has its default.

        Raises:
            UsageError: if options do not go together; ranges were checked when they were read.
        """
        fields = [option.field for option in options_of(group)]
        with self.naming_origins():
            return group(**{f: self.values[f] for f in fields if f in self.values})

    def check(self) -> "Settings":
        """Check what options ask of one another, before anything takes time; return the settings.

        Raises:
            UsageError: naming two of them.
        """
        with self.naming_origins():
            check_together(self.values)
        return self

    @contextmanager
    def naming_origins(self) -> Iterator[None]:
        """Make errors about an option name the variable or file that its value comes from."""
        origins = {field: given.origin for field, given in self.given.items() if given.origin}
        try:
            yield
        except Gpt2Error as error:
            error.origins = {**origins, **error.origins}
            if isinstance(error, ModelError) and "model" in origins:
                error.add_note(f"(the model is named by {origins['model']})")
            if "{offline}" in error.advice and "offline" in origins:
                origin = origins["offline"]
                error.add_note(f"(offline mode is set by {origin}; --no-offline overrules it)")
            raise

    def _is_models(self, field: str) -> bool:
        return field in self.given and self.given[field].origin == _MODEL


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
        silent = _silence(settings.given)  # errors there do no harm
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


def _silence(found: Layer) -> set[str]:
    """Return the options that are hidden by those given, farther from the user."""
    others = {
        other
        for name, given in found.items()
        if given.value is not False
        for other in TAKES_PLACE_OF.get(name, ())
    }
    return found.keys() | others


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
