"""`gpt2 batch`: its options, and which of them go together."""

from typing import Annotated

import typer

from gpt2cli.batch.config import InputOutput
from gpt2cli.config import OF_A_PROMPT, DraftConfig, ModelConfig, ReportConfig
from gpt2cli.errors import UsageError
from gpt2cli.options import takes
from gpt2cli.settings import Settings


@takes(*OF_A_PROMPT, InputOutput, ReportConfig, ModelConfig, DraftConfig)
def batch(
    *,
    prompts: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Prompts, one per line, or records (--jsonl). Default: stdin, also as -.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Complete many prompts, side by side, with a record for each in the order of the input.

    A record is written as soon as it and all before it are done; a bad one becomes a record with
    "error", and the rest goes on.

    For example:

    cat prompts.txt | gpt2 batch -n 50 > records.jsonl

    gpt2 batch prompts.jsonl -o records.jsonl --resume
    """
    io = settings.make(InputOutput)
    if settings.values["logprobs"] is not None and io.as_text:
        raise UsageError(option="logprobs", expected="{format} jsonl, whose records hold them")
    if io.resume and io.output is None:
        raise UsageError(option="resume", expected="{output} FILE, the file to continue")
    if prompts is not None and io.file is not None:
        raise UsageError(option="file", expected="no FILE argument together with it")
    from gpt2cli.batch.run import run_batch  # heavy: not for --help

    code = run_batch(prompts if io.file is None else str(io.file), settings, io)
    if code:
        raise typer.Exit(code)
