"""How a command shows its help."""

import copy
from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help has no column for `--no-…`: a switch's sentence says it.

    Typer 0.29 would set one apart in every panel that has a switch, and leave too little room
    for the sentences on 80 columns.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        shown = copy.copy(self)
        shown.params = [_without_negation(parameter) for parameter in self.params]
        super(Command, shown).format_help(ctx, formatter)


def _without_negation(parameter: Any) -> Any:
    shown = copy.copy(parameter)
    shown.secondary_opts = []
    return shown
