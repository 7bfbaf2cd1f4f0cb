"""How a command shows its help, and where it sends those who used it wrongly."""

import copy
from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help has no column for `--no-…`: a switch's sentence says it.

    Typer 0.28 would set one apart in every panel that has a switch, and leave too little room
    for the sentences on 80 columns.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; every error knows its command, as Typer 0.28's do only in part."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        shown = copy.copy(self)
        shown.params = [_without_negation(parameter) for parameter in self.params]
        super(Command, shown).format_help(ctx, formatter)


def _without_negation(parameter: Any) -> Any:
    shown = copy.copy(parameter)
    shown.secondary_opts = []
    return shown
