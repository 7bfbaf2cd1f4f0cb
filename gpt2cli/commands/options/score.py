"""What `score` reads, how, and what it writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import input_file, number, option
from gpt2cli.commands.options.panels import REPORT, SCORING, AllowSpecial


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """How texts are scored."""

    stride: Annotated[
        int | None,
        number(
            SCORING, "--stride", kind=int,
            help="Distance in tokens between the starts of a long text's windows. A smaller one "
            "gives more context and is slower.",
            within="1 or more, and less than the model's context", default="half of the context",
        ),
    ] = None  # fmt: skip
    top: Annotated[
        int,
        number(
            SCORING, "--top", kind=int,
            help="Also tell the N likeliest tokens at each place.",
            within="0 or more", off="0: off", default="0",
        ),
    ] = 0  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Where texts come from, beside the argument."""

    file: Annotated[
        list[Path] | None,
        input_file(
            REPORT, "--file", "-f",
            help="Read a text from FILE; repeatable; - is stdin. Default: the argument, or stdin.",
        ),
    ] = None  # fmt: skip
    allow_special: AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOutputOptions:
    """What is written of the scores, and where."""

    json: Annotated[bool, option(REPORT, "--json", help="Print one JSON record per text.")] = False
    output: Annotated[
        Path | None,
        option(
            REPORT, "--output", "-o", metavar="FILE",
            help="Write the result to FILE, whole or not at all; - is stdout. Default: stdout.",
        ),
    ] = None  # fmt: skip
