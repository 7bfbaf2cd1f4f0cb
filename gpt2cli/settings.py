"""Where each option's value comes from: the source nearest to the user wins.

A record of a batch or `/set` > the command line > the environment > the config file > the model's
own generation_config.json > what is built in. A preset comes right behind what names it, the
command line or the environment.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import Gpt2Error, ModelError, UsageError
from gpt2cli.option_rules import TAKES_PLACE_OF, check_together

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
            silent = find_hidden(found)
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


def find_hidden(found: Layer) -> set[str]:
    """Return the options that are hidden by those given, farther from the user."""
    others = {
        other
        for name, given in found.items()
        if given.value is not False
        for other in TAKES_PLACE_OF.get(name, ())
    }
    return found.keys() | others
