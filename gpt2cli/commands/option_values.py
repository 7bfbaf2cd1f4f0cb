"""Reads an option's value from text by its declaration, where it is not Typer that does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, get_args, get_type_hints

from gpt2cli.commands.text import unescape
from gpt2cli.errors import UsageError

_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option of a group as it was declared."""

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

    def parse(self, text: str) -> Any:
        """Return the value that a text means; a repeatable one's may be a JSON array.

        Escapes are understood, but not in JSON, which has its own.

        Raises:
            UsageError: naming the option. Ranges are checked by who takes the value.
        """
        if not self.repeatable:
            return self._parse_one(_unquote(text))
        values = _read_array(text) if text.startswith("[") else None
        return [self._parse_one(_unquote(text))] if values is None else values

    def _parse_one(self, text: str) -> Any:
        if self.kind is str and self.declaration.parser is not None:
            return unescape(text)  # the command line's own parser takes it for argv's bytes
        if self.declaration.parser is not None:
            return self.declaration.parser(text)
        if self.kind is bool:
            return self._choose(text.lower(), _FLAGS)
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return self._choose(text, {choice.value: choice for choice in self.kind})
        return text

    def _choose(self, text: str, choices: Mapping[str, Any]) -> Any:
        if text in choices:
            return choices[text]
        expected = "on or off" if self.kind is bool else ", ".join(choices)
        raise UsageError(f"--{self.name}: expected {expected}, found {text!r}")


def declared_options(group: type[Any]) -> list[DeclaredOption]:
    """Return the options of a group in their order."""
    hints = get_type_hints(group, include_extras=True)
    return [_describe(field, hints[field.name]) for field in fields(group)]


def _describe(field: Any, hint: Any) -> DeclaredOption:
    kind, declaration = hint.__origin__, hint.__metadata__[0]
    given = [part for part in get_args(kind) if part is not type(None)] or [kind]
    repeatable = getattr(given[0], "__origin__", None) is list
    return DeclaredOption(
        name=field.name.replace("_", "-"),
        field=field.name,
        kind=get_args(given[0])[0] if repeatable else given[0],
        repeatable=repeatable,
        default=field.default,
        declaration=declaration,
    )


def _unquote(text: str) -> str:
    """Return what stands within double quotes; the text itself if it does not."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1] if quoted else text


def _read_array(text: str) -> list[str] | None:
    """Return a JSON array of texts; None if it is none, but a text that begins like one."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if all(isinstance(value, str) for value in values) else None
