"""Where the prompt of `generate` comes from, what is written and what is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import input_file, number, option, switch, text
from gpt2cli.commands.options.panels import REPORT, REPORTING, AllowSpecial, Logprobs, Quiet
from gpt2cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is told beside the result."""

    stats: Annotated[
        bool, switch(REPORTING, "--stats", help="Tell speed, memory and conditions on stderr.")
    ] = False
    quiet: Quiet = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Where the prompt comes from, beside the argument."""

    file: Annotated[
        Path | None,
        input_file(
            REPORT,
            "--file",
            "-f",
            help="Read the prompt from FILE; - is stdin. Default: the argument, or stdin.",
        ),
    ] = None
    allow_special: AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What is written of the samples, and where."""

    samples: Annotated[
        int,
        number(
            REPORT, "--samples", "-N", kind=int,
            help="How many completions, from one reading of the prompt.",
            within="1 or more", default="1",
        ),
    ] = 1  # fmt: skip
    separator: Annotated[
        str,
        text(
            REPORT, "--separator", metavar="TEXT",
            help=r"Line between samples; \n and \t are understood. Default ---.",
        ),
    ] = "---"  # fmt: skip
    echo: Annotated[
        bool,
        option(
            REPORT, "--echo/--no-echo",
            help="Print the prompt before its completion. Default --echo; --no-echo: the "
            "completion alone.",
        ),
    ] = True  # fmt: skip
    json: Annotated[
        bool, option(REPORT, "--json", help="Print one JSON record per sample, not text.")
    ] = False
    logprobs: Logprobs = None
    output: Annotated[
        Path | None,
        option(
            REPORT, "--output", "-o", metavar="FILE",
            help="Write the result to FILE, whole or not at all; - is stdout. Default: stdout.",
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.logprobs is not None and not self.json:
            raise UsageError("--logprobs: expected --json too, whose records tell them")
