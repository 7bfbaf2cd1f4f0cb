"""The kinds of options: each says its range, its off value and its default in the same words."""

from typing import Any

import typer

from gpt2cli.commands.text import decode_argument, unescape
from gpt2cli.errors import UsageError, shorten


def option(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option of any kind in a panel of --help; `help` says its default."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **settings)


def input_file(panel: str, *names: str, help: str) -> Any:  # noqa: A002
    """Declare an option that names a file to read; its faults are told by who reads it."""
    return option(panel, *names, help=help, metavar="FILE", readable=False)


def switch(panel: str, *names: str, help: str, off: str = "") -> Any:  # noqa: A002
    """Declare an option that is on or off, where the user's own settings may say which.

    `--no-…` turns it off; `off` says what holds then.
    """
    first, *others = names
    negation = f"--no-{first.removeprefix('--')}"
    told = f"{help} Default {negation}{off and f': {off}'}."
    return option(panel, f"{first}/{negation}", *others, help=told)


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
            wanted = f"a {'whole ' if kind is int else ''}number {within}"
            found = repr(shorten(given))
            raise UsageError(f"{names[0]}: expected {wanted}, found {found}") from error

    told = f"{help} {within.capitalize()}{off and f'; {off}'}. Default {default}."
    return option(panel, *names, help=told, parser=parse, metavar=f"<{kind.__name__}>")


def pattern(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option that takes text in which a backslash is the user's own."""

    def parse(given: str) -> str:
        return decode_argument(given, names[0])

    return option(panel, *names, help=help, parser=parse, **{"metavar": "<str>", **settings})


def text(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an option that takes text, with escapes."""

    def parse(given: str) -> str:
        return unescape(decode_argument(given, names[0]))

    return option(panel, *names, help=help, parser=parse, **{"metavar": "<str>", **settings})
