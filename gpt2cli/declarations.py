"""What an option is: its kind, its range, its words. Declares options as fields of a dataclass.

Everything else uses that declaration: the command line (`gpt2cli.options`), the environment, the
config file, `/set`, the records of a batch and a model's generation_config.json read values by it,
and the dataclass checks itself by it when it is built.
"""

import dataclasses
import functools
import json
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from export.small_files import ReadError, parse_json
from gpt2cli.errors import UsageError, shorten
from gpt2cli.option_kinds import BIAS, BY_TYPE, SCHEMA, SWITCH, WHOLE, Kind, Range, unescape

# The largest number allowed: it excludes infinity, and integers of a JSON record that no float can
# hold. (NaN fails any comparison.)
_LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. `field` names it in configurations, records and the config file."""

    kind: Kind
    help: str  # a sentence or more; range, off value and default are added
    panel: str  # of --help
    default: Any
    short: str = ""
    within: Range | None = None
    off: str = ""  # which value turns it off: "0: off"
    usual: str = ""  # the default in words, where the value itself would not do
    repeatable: bool = False
    auto: str = ""  # a word that means the default, as if the option were left out
    settable: bool = False  # in the environment and the config file
    hugging_face: str = ""  # its key in generation_config.json
    metavar: str = ""
    secret: bool = False  # never shown
    field: str = ""

    @property
    def name(self) -> str:
        """The name as on the command line, without its dashes."""
        return self.field.replace("_", "-")

    @property
    def negatable(self) -> bool:
        """Whether a switch has a --no-… form: unless its default is off, and settings leave it."""
        return self.kind is SWITCH and (self.settable or self.default is not False)

    @property
    def bounds(self) -> str:
        """The range in words; empty where there is none."""
        within = self.within
        if within is None or self.kind is WHOLE or within.high is None or within.above:
            return str(within or "")
        return f"between {within.low} and {within.high}"

    @property
    def usual_words(self) -> str:
        """The default in words."""
        if self.kind is SWITCH:
            return "on" if self.default else "off"
        told = self.usual or ("none" if self.default in (None, ()) else str(self.default))
        return f"{told}, or the model's own" if self.hugging_face else told

    @property
    def told(self) -> str:
        """The help: what it does, its range, its off value, its default."""
        if self.kind is SWITCH:
            default = f" Default --no-{self.name}{self.off and f': {self.off}'}."
            return self.help + (default if self.negatable and self.default is False else "")
        return f"{self.told_of_any} Default {self.usual_words}."

    @property
    def told_of_any(self) -> str:
        """The help without the default: what it does, its range, its off value."""
        bounds = "; ".join(part for part in (self.bounds, self.off) if part)
        capital = f" {bounds[0].upper()}{bounds[1:]}." if bounds and self.kind is not SWITCH else ""
        return f"{self.help}{capital}"

    def parse(self, text: str) -> Any:
        """Return the value of a text; of a repeatable one it may be a JSON array.

        Raises:
            UsageError: naming the option, if it is none, or out of its range.
        """
        array = None
        if self.repeatable and text.startswith("["):
            array = _read_array(text, int if self.kind is WHOLE else str)
        if array is not None:
            return self.read(array)
        value = self.parse_one(text)
        return self.check((value,) if self.repeatable else value)

    def parse_one(self, text: str) -> Any:
        r"""Return the value of a text in which \n and the like are understood; no range is checked.

        Raises:
            UsageError: naming the option, if it is none.
        """
        if self.auto and text == self.auto:
            return None
        plain = unescape(text) if self.kind.has_escapes else text
        return self._convert(self.kind.parse, plain)

    def read(self, value: Any) -> Any:
        """Return the value that JSON or TOML gives; of a repeatable one it may be a list.

        Raises:
            UsageError: as `parse`.
        """
        wanted = self.kind.wanted_of_json
        if not self.repeatable:
            return self.check(self._convert(self.kind.read, value, wanted))
        if self.kind is BIAS and isinstance(value, dict):
            pairs = ((t, self._convert(_read_number, bias, wanted)) for t, bias in value.items())
            return self.check(tuple(pairs))
        values = value if isinstance(value, list) else [value]
        return self.check(tuple(self._convert(self.kind.read, one, wanted) for one in values))

    def as_json(self, value: Any) -> Any:
        """Return a value as JSON has it, for `read`."""
        if self.kind is SCHEMA:
            return parse_json(value)
        return dict(value) if self.kind is BIAS else value

    def check(self, value: Any) -> Any:
        """Return the value, if it is within the range.

        Raises:
            UsageError: naming the option, the range and the value.
        """
        for one in value if self.repeatable else (value,):
            text, number = one if isinstance(one, tuple) else (one, one)
            if isinstance(text, str):
                self._check_text(text)
            if number is not None and not self._is_within(number):
                beside = f" for {shorten(text)!r}" if isinstance(one, tuple) else ""
                raise self._refuse(f"{shorten(str(number))}{beside}", beside and "a number")
        return value

    def _is_within(self, number: float) -> bool:
        if self.within is None:
            return True
        return number in self.within and (self.kind is WHOLE or number <= _LARGEST)

    def _convert(self, convert: Callable[[Any], Any], value: Any, wanted: str = "") -> Any:
        try:
            return convert(value)
        except ValueError as error:
            # A date of TOML has no JSON of its own.
            shown = json.dumps(value, ensure_ascii=False, default=str)
            found = repr(shorten(value)) if isinstance(value, str) else shorten(shown)
            raise self._refuse(found, wanted) from error

    def _refuse(self, found: str, wanted: str = "") -> UsageError:
        wanted = wanted or self.kind.wanted
        numbers = f" {self.bounds}" if self.bounds and wanted.endswith("number") else ""
        auto = f", or {self.auto}" if self.auto else ""
        return UsageError(option=self.field, expected=f"{wanted}{numbers}{auto}", found=found)

    def _check_text(self, text: str) -> None:
        if not text and self.repeatable:
            raise UsageError(option=self.field, expected="some text", found="an empty one")
        try:
            text.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, from JSON
            found = ascii(shorten(text))
            raise UsageError(option=self.field, expected="valid Unicode", found=found) from error


def option(default: Any, help: str, panel: str, **more: Any) -> Any:  # noqa: A002
    """Declare an option of the command line as a field of a dataclass.

    `more` are fields of `Option`. A tuple is repeatable; switches, numbers and files are of the
    kind that the field's type says.
    """
    return dataclasses.field(
        default=default, metadata={"option": {"help": help, "panel": panel, **more}}
    )


def setting(default: Any, help: str, panel: str, **more: Any) -> Any:  # noqa: A002
    """Declare an option that the environment and the config file can hold too."""
    return option(default, help, panel, settable=True, **more)


def options_of(group: type[Any]) -> tuple[Option, ...]:
    """Return the options that a dataclass declares, in their order."""
    return _find_options(group)  # type: ignore[arg-type]  # a class can be hashed


@functools.cache
def _find_options(group: Any) -> tuple[Option, ...]:
    return tuple(_make(field) for field in dataclasses.fields(group) if "option" in field.metadata)


def _make(field: dataclasses.Field[Any]) -> Option:
    types = typing.get_args(field.type) or (field.type,)  # of `int | None` and `tuple[int, ...]`
    by_type = {
        "kind": next((BY_TYPE[one] for one in types if one in BY_TYPE), None),
        "repeatable": typing.get_origin(field.type) is tuple,
    }
    return Option(**by_type | field.metadata["option"], default=field.default, field=field.name)


def check_ranges(group: Any) -> None:
    """Check every option of a dataclass that has just been built.

    Raises:
        UsageError: naming the option, its range and the value found.
    """
    for declared in options_of(type(group)):
        declared.check(getattr(group, declared.field))


def _read_array(text: str, of: type) -> list[Any] | None:
    """Return a JSON array of values of a type; None if the text only begins like one."""
    try:
        values = parse_json(text, half_pairs=True)  # `read` reports them
    except ReadError:
        return None
    return values if all(isinstance(value, of) for value in values) else None


def _read_number(value: Any) -> Any:
    """Return a number of JSON, however large: the option checks the range."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    return value
