"""How a batch reads and writes records."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import input_file, number, option
from gpt2cli.commands.options.panels import MOST_SLOTS, REPORT, AllowSpecial, Logprobs
from gpt2cli.errors import UsageError


class FormatChoice(StrEnum):
    """Values of --format."""

    JSONL = "jsonl"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInputOptions:
    """Where the input of a batch comes from, beside the argument, and what its records are."""

    file: Annotated[
        Path | None,
        input_file(
            REPORT, "--file", "-f",
            help="Read from FILE, as by the argument; - is stdin. Default: the argument, or stdin.",
        ),
    ] = None  # fmt: skip
    jsonl: Annotated[
        bool,
        option(
            REPORT, "--jsonl",
            help='Records are JSON objects: {"prompt": …}, with "id" and any option by its long '
            "name with underscores. Default: for a FILE named .jsonl; else lines are prompts.",
        ),
    ] = False  # fmt: skip
    null: Annotated[
        bool,
        option(REPORT, "--null", "-0", help="Input records end with NUL. Default: with a newline."),
    ] = False
    allow_special: AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutputOptions:
    """What a batch writes, where, and how many records it runs at once."""

    samples: Annotated[
        int,
        number(
            REPORT, "--samples", "-N", kind=int,
            help="How many completions of each prompt, as consecutive records.",
            within="1 or more", default="1",
        ),
    ] = 1  # fmt: skip
    format: Annotated[
        FormatChoice,
        option(
            REPORT, "--format",
            help="Write JSON records, or completions alone, one a line, newlines escaped as \\n. "
            "Default jsonl.",
        ),
    ] = FormatChoice.JSONL  # fmt: skip
    logprobs: Logprobs = None
    output: Annotated[
        Path | None,
        option(
            REPORT, "--output", "-o", metavar="FILE",
            help="Write to FILE, with FILE.resume.json beside it. Default: stdout.",
        ),
    ] = None  # fmt: skip
    resume: Annotated[
        bool,
        option(
            REPORT,
            "--resume",
            help="Continue the run that was writing to --output. Default: start anew.",
        ),
    ] = False
    batch_size: Annotated[
        int | None,
        number(
            REPORT, "--batch-size", kind=int, help="How many records run at once.",
            within=f"1 to {MOST_SLOTS}, or auto", unsaid="auto",
            default="auto: by cores and memory",
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.batch_size is not None and not 1 <= self.batch_size <= MOST_SLOTS:
            found = self.batch_size
            raise UsageError(f"--batch-size: expected 1 to {MOST_SLOTS}, or auto, found {found}")
        if self.logprobs is not None and self.format is not FormatChoice.JSONL:
            raise UsageError("--logprobs: expected --format jsonl, whose records tell them")
        if self.resume and self.output is None:
            raise UsageError("--resume: expected --output FILE, the file to go on with")
