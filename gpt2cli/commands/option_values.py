"""Reads an option's value from text by its declaration, where it is not Typer that does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, get_args, get_type_hints

from export.small_files import ReadError, find_half_pair, parse_json
from gpt2cli.commands.text import unescape
from gpt2cli.errors import UsageError

_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option as it was declared."""

    name: str  # as on the command line, without its dashes
    field: str  # of its group
    kind: Any  # the type of its value; that of one value if it is repeatable
    repeatable: bool
    default: Any
    declaration: Any  # Typer's OptionInfo

    @property
    def help(self) -> str:
        """What it does, its range, its default."""
        return str(self.declaration.help)

    @property
    def usual(self) -> str:
        """What holds if nobody says anything, in the words of the help."""
        if self.kind is bool:
            return "on" if self.default else "off"
        told = re.search(r"Default:? (.+)\.$", self.help)
        return told[1] if told else ""

    @property
    def panel(self) -> str:
        """The panel of --help in which it stands."""
        return str(self.declaration.rich_help_panel)

    @property
    def choices(self) -> list[str]:
        """The values that it can have, if they can be told."""
        if self.kind is bool:
            return ["on", "off"]
        is_choice = isinstance(self.kind, type) and issubclass(self.kind, StrEnum)
        return [choice.value for choice in self.kind] if is_choice else []

    def parse(self, text: str) -> Any:
        """Return the value of a text that was typed, in quotes if need be; else as `parse_plain`.

        Escapes are understood, but not in JSON, which has its own.

        Raises:
            UsageError: naming the option. Ranges are checked by who takes the value.
        """
        return self._parse(text, self._parse_typed)

    def parse_plain(self, text: str) -> Any:
        """Return the value of an argument or a variable; a repeatable one's may be a JSON array.

        Raises:
            UsageError: as `parse`.
        """
        return self._parse(text, self._parse_argument)

    def read(self, value: Any) -> Any:
        """Return the value that TOML gives, which has its own escapes.

        Raises:
            UsageError: as `parse`.
        """
        if self.repeatable:
            values = value if isinstance(value, list) else [value]
            return [self._read_text(one) for one in values]
        if self.kind is str:
            return self._read_text(value)
        return self._parse_argument(str(value))

    def _parse(self, text: str, parse_one: Callable[[str], Any]) -> Any:
        if not self.repeatable:
            return parse_one(text)
        values = self._read_array(text) if text.startswith("[") else None
        return [parse_one(text)] if values is None else values

    def _parse_typed(self, text: str) -> Any:
        text = _unquote(text)
        if self.kind is str and self.declaration.parser is not None:
            return unescape(text)  # its parser takes it for argv's bytes
        return self._parse_argument(text)

    def _parse_argument(self, text: str) -> Any:
        if self.declaration.parser is not None:
            return self.declaration.parser(text)
        if self.kind is bool:
            return self._choose(text.lower(), _FLAGS)
        if self.choices:
            return self._choose(text, {choice.value: choice for choice in self.kind})
        return text

    def _read_array(self, text: str) -> list[str] | None:
        """Return a JSON array of texts; None if it is none, but a text that begins like one."""
        try:
            values = parse_json(text, half_pairs=True)
        except ReadError:
            return None
        if not all(isinstance(value, str) for value in values):
            return None
        if half := find_half_pair(values):
            raise UsageError(f"--{self.name}: {half} is half of a surrogate pair, no character")
        return values

    def _read_text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise UsageError(f"--{self.name}: expected a text, found {value!r}")
        return value

    def _choose(self, text: str, choices: Mapping[str, Any]) -> Any:
        if text in choices:
            return choices[text]
        expected = "on or off" if self.kind is bool else ", ".join(choices)
        raise UsageError(f"--{self.name}: expected {expected}, found {text!r}")


def declared_options(group: type[Any]) -> list[DeclaredOption]:
    """Return the options of a group in their order."""
    hints = get_type_hints(group, include_extras=True)
    return [describe_option(f.name, hints[f.name], f.default) for f in fields(group)]


def describe_option(field: str, hint: Any, default: Any) -> DeclaredOption:
    """Return what an annotation of kind and declaration says of an option."""
    kind, declaration = hint.__origin__, hint.__metadata__[0]
    given = [part for part in get_args(kind) if part is not type(None)] or [kind]
    repeatable = getattr(given[0], "__origin__", None) is list
    return DeclaredOption(
        name=field.replace("_", "-"),
        field=field,
        kind=get_args(given[0])[0] if repeatable else given[0],
        repeatable=repeatable,
        default=default,
        declaration=declaration,
    )


def _unquote(text: str) -> str:
    """Return what stands within double quotes; the text itself if it does not."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1] if quoted else text
