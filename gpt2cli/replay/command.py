"""`gpt2 replay`: its options, and its records."""

from pathlib import Path
from typing import Annotated

import typer

from gpt2cli.config import ModelConfig, ReportConfig
from gpt2cli.errors import PromptError
from gpt2cli.options import takes
from gpt2cli.replay.config import ReplayConfig
from gpt2cli.settings import Settings
from gpt2cli.text_input import Stdin, find_stdin, read_texts


@takes(
    ModelConfig, ReplayConfig, ReportConfig,
    without={"stats", "revision", "step", "adapter", "precision", "device"},
)  # fmt: skip
def replay(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Records, one per line. Default: stdin, also as -.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Run what records tell of again, and say whether the texts are the same.

    Takes what generate --json, batch and chat --json write, and the answers of
    gpt2 serve, one per line. The line of a record says "same", where the texts
    part and the most likely reason, or why they cannot be compared. The exit code
    is 0 if all are the same, else 1.

    With --json a line has "line", "index", "sample" and "same": true, false, or
    null where they cannot be compared. If it is not true, "reason" says why;
    where texts part, at character "position", "recorded" and "now" show them.

    For example:

    gpt2 generate "Once upon" --json | gpt2 replay -

    gpt2 replay records.jsonl --index 7
    """
    files = [] if file is None else [file]
    example = "gpt2 replay records.jsonl"
    try:
        [text] = read_texts("record", None, files, stdin=Stdin(find_stdin()), example=example)
    except PromptError as error:
        error.option = None  # FILE is an argument here
        raise
    from gpt2cli.replay.run import run_replay  # heavy: not for --help or a missing file

    code = run_replay(text.text, settings)
    if code:
        raise typer.Exit(code)
