"""How options are declared: kinds of options, and groups of them that commands take whole.

A command writes `sampling: SamplingOptions` and `flatten` spreads the group's fields into the
signature that Typer reads.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from typing import Any, Final, get_type_hints

import typer

from gpt2cli.commands.text import decode_argument, unescape
from gpt2cli.errors import UsageError

_MOST_SHOWN: Final = 40  # characters of a wrong value


def option(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option of any kind in a panel of --help; `help` says its default."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **settings)


def flag(panel: str, *names: str, help: str) -> Any:  # noqa: A002
    """Declare an option that is on if it is given."""
    return option(panel, *names, help=help, metavar="")  # Typer 0.29 would say <bool>


def number(
    panel: str,
    *names: str,
    kind: type[int] | type[float],
    help: str,  # noqa: A002
    within: str,
    off: str = "",
    unsaid: str = "",
    default: str,
) -> Any:
    """Declare an option that takes a number; help and errors say the range in the same words.

    `unsaid` is a word that means the default, as if nothing were given.
    """

    def parse(given: Any) -> Any:
        if unsaid and given == unsaid:
            return None
        try:
            return kind(given)
        except ValueError as error:
            shown = given if len(given) <= _MOST_SHOWN else f"{given[:_MOST_SHOWN]}…"
            wanted = f"a {'whole ' if kind is int else ''}number {within}"
            raise UsageError(f"{names[0]}: expected {wanted}, found {shown!r}") from error

    told = f"{help} {within.capitalize()}{off and f'; {off}'}. Default {default}."
    return option(panel, *names, help=told, parser=parse)


def pattern(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option that takes text in which a backslash is the user's own."""

    def parse(given: str) -> str:
        return decode_argument(given, names[0])

    return option(panel, *names, help=help, parser=parse, **settings)


def text(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option that takes text, with escapes."""

    def parse(given: str) -> str:
        return unescape(decode_argument(given, names[0]))

    return option(panel, *names, help=help, parser=parse, **settings)


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the option groups among a command's parameters into single options."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[parameter.name] = hint
            parameters += _parameters_of(hint)
        else:
            parameters.append(
                parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @functools.wraps(command)
    def spread(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        command(**values)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {p.name: p.annotation for p in parameters}
    return spread


def _parameters_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)

    def parameter(declared: Field[Any]) -> inspect.Parameter:
        return inspect.Parameter(
            declared.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=declared.default,
            annotation=hints[declared.name],
        )

    return [parameter(declared) for declared in fields(group)]
