"""What `tokens` reads and writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import input_file, option
from gpt2cli.commands.options.panels import REPORT, AllowSpecial, Quiet
from gpt2cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensInputOptions:
    """Where a text or its ids come from, beside the arguments."""

    decode: Annotated[
        bool, option(REPORT, "--decode", "-d", help="From ids to text. Default: from text to ids.")
    ] = False
    file: Annotated[
        Path | None,
        input_file(
            REPORT, "--file", "-f",
            help="Read from FILE; - is stdin. Default: the arguments, or stdin.",
        ),
    ] = None  # fmt: skip
    allow_special: AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOutputOptions:
    """What is written of a text's tokens: each on a line, or one of these.

    Raises:
        UsageError: if more than one is given.
    """

    ids: Annotated[bool, option(REPORT, "--ids", help="Print the ids alone, on one line.")] = False
    count: Annotated[bool, option(REPORT, "--count", help="Print how many tokens there are.")] = (
        False
    )
    json: Annotated[bool, option(REPORT, "--json", help="Print one JSON record.")] = False
    quiet: Quiet = False

    @property
    def chosen(self) -> list[str]:
        """The forms that were asked for: one at most."""
        forms = {"--ids": self.ids, "--count": self.count, "--json": self.json}
        return [name for name, given in forms.items() if given]

    def __post_init__(self) -> None:
        if len(self.chosen) > 1:
            found = " and ".join(self.chosen)
            raise UsageError(f"expected one of --ids, --count and --json, found {found}")
