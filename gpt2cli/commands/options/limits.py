"""Where a completion ends, and what it must be."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import input_file, number, option, pattern, switch, text
from gpt2cli.commands.options.panels import LIMITS


class OverflowChoice(StrEnum):
    """Values of --overflow."""

    STOP = "stop"
    SLIDE = "slide"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Where a completion ends."""

    max_new_tokens: Annotated[
        int | None,
        number(
            LIMITS, "--max-new-tokens", "-n", kind=int,
            help="Most tokens to generate, the prompt not counted.",
            within="0 or more", default="256 (chat 128), or the model's own",
        ),
    ] = None  # fmt: skip
    min_new_tokens: Annotated[
        int | None,
        number(
            LIMITS, "--min-new-tokens", kind=int,
            help="Fewest tokens to generate: before them neither the model nor --stop ends the "
            "text. What --choice and the like ask for ends it all the same.",
            within="0 or more", off="0: off", default="0, or the model's own",
        ),
    ] = None  # fmt: skip
    stop: Annotated[
        list[str] | None,
        text(
            LIMITS, "--stop", "-s", metavar="TEXT",
            help=r"End before this text; repeatable; \n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    ignore_eos: Annotated[
        bool,
        switch(LIMITS, "--ignore-eos", help="Go on when the model ends the text.", off="end"),
    ] = False
    overflow: Annotated[
        OverflowChoice,
        option(
            LIMITS, "--overflow",
            help="At the model's context limit: stop there, slide on with the last half, or refuse "
            "up front (error). Default stop.",
        ),
    ] = OverflowChoice.STOP  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintOptions:
    """What a whole completion must be."""

    choice: Annotated[
        list[str] | None,
        text(
            LIMITS, "--choice", metavar="TEXT",
            help=r"Complete with one of these texts; repeatable; \n and \t are understood. Most "
            "begin with a space. Default: any text.",
        ),
    ] = None  # fmt: skip
    regex: Annotated[
        str | None,
        pattern(
            LIMITS, "--regex", metavar="PATTERN",
            help="Complete with what this matches from end to end, in the syntax of Rust's regex. "
            "Default: any text.",
        ),
    ] = None  # fmt: skip
    json_schema: Annotated[
        Path | None,
        input_file(
            LIMITS, "--json-schema",
            help="Complete with JSON on one line that is valid under the schema in FILE. "
            "Default: any text.",
        ),
    ] = None  # fmt: skip
