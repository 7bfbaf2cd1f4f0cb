"""`gpt2 batch`: a record in, a record out, many at once, in order."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpt2cli import exit_codes
from gpt2cli.config import (
    MOST_SLOTS,
    REPORT,
    BeamConfig,
    ConstraintConfig,
    GenerationConfig,
    ModelConfig,
    ReportConfig,
    SampleConfig,
    SamplingConfig,
    SeedConfig,
    TextConfig,
)
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import FILE, SWITCH, WHOLE, Range, one_of, option
from gpt2cli.options import takes
from gpt2cli.settings import Settings

if TYPE_CHECKING:
    from gpt2cli.batch import Journal
    from gpt2cli.commands.start_batch import ReadyBatch
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import ResultWriter


_TEXT: Final = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where records come from, beside the argument, what is written and where, and how many run."""

    file: Path | None = option(
        None, "Read from FILE, as by the argument; - is stdin.", REPORT,
        kind=FILE, short="-f", usual="the argument, or stdin", settable=False,
    )  # fmt: skip
    jsonl: bool = option(
        False, 'Records are JSON objects: {"prompt": …}, with "id" and any option by its long name '
        "with underscores. Default: for a FILE named .jsonl; else lines are prompts.", REPORT,
        kind=SWITCH, settable=False,
    )  # fmt: skip
    null: bool = option(
        False, "Input records end with NUL. Default: with a newline.", REPORT,
        kind=SWITCH, short="-0", settable=False,
    )  # fmt: skip
    format: str = option(
        "jsonl", r"Write JSON records, or completions alone, one a line, newlines escaped as \n.",
        REPORT, kind=one_of(("jsonl", _TEXT)), settable=False,
    )  # fmt: skip
    output: Path | None = option(
        None, "Write to FILE, with FILE.resume.json beside it.", REPORT,
        kind=FILE, short="-o", usual="stdout", settable=False,
    )  # fmt: skip
    resume: bool = option(
        False, "Continue the run that was writing to --output. Default: start anew.", REPORT,
        kind=SWITCH, settable=False,
    )  # fmt: skip
    batch_size: int | None = option(
        None, "How many records run at once.", REPORT,
        kind=WHOLE, within=Range(1, MOST_SLOTS), auto="auto", usual="auto: by cores and memory",
        settable=False,
    )  # fmt: skip

    @property
    def as_text(self) -> bool:
        """Whether completions alone are written."""
        return self.format == _TEXT


@takes(
    SamplingConfig, SeedConfig, BeamConfig, GenerationConfig, ConstraintConfig, SampleConfig,
    TextConfig, InputOutput, ReportConfig, ModelConfig,
)  # fmt: skip
def batch(
    *,
    prompts: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Prompts, one a line, or records (--jsonl). Default: stdin, also as -.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Complete many prompts, side by side, with a record for each in the order of the input.

    A record goes out as soon as it and all before it are done; a bad one becomes
    a record with "error", and the rest goes on.

    For example:

    cat prompts.txt | gpt2 batch -n 50 > records.jsonl

    gpt2 batch prompts.jsonl -o records.jsonl --resume
    """
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.text_input import find_stdin

    io, report = settings.make(InputOutput), settings.make(ReportConfig)
    _check(settings, io)
    with Notes(quiet=report.quiet) as notes:
        # Heavy: not for --help.
        from gpt2cli.commands.start_batch import get_batch_ready, open_input

        opened = open_input(_choose_file(prompts, io), stdin=find_stdin())
        ready = get_batch_ready(opened, settings, io, listener=notes)
        notes.pause()
        errors = _run(ready, io, notes)
        if report.stats:
            _report(ready, notes)
    if errors:
        raise typer.Exit(exit_codes.FAILED)


def _check(settings: Settings, io: InputOutput) -> None:
    """Check what options ask of one another here."""
    if settings.values["logprobs"] is not None and io.as_text:
        raise UsageError(option="logprobs", expected="{format} jsonl, whose records tell them")
    if io.resume and io.output is None:
        raise UsageError(option="resume", expected="{output} FILE, the file to go on with")


def _choose_file(argument: str | None, io: InputOutput) -> str | None:
    if io.file is None:
        return argument
    if argument is not None:
        raise UsageError("give FILE as the argument or by --file, not both")
    return str(io.file)


def _run(ready: "ReadyBatch", io: InputOutput, notes: "Notes") -> int:
    """Run the batch and return how many records were errors.

    Raises:
        Exit: after Ctrl-C, or when nobody reads any more; what was done has been written.
    """
    from gpt2cli.batch import BatchRun
    from gpt2cli.terminal.batch_view import BatchView
    from gpt2cli.terminal.interrupt import ctrl_c_as_flag
    from gpt2cli.terminal.progress import BatchProgress

    model, items, journal = ready.model, ready.items, ready.journal
    progress = BatchProgress(
        notes,
        total_bytes=ready.input_bytes,
        done=0 if journal is None else journal.done,
        done_errors=0 if journal is None else journal.errors,
        hidden=journal is None and _is_stdout_a_terminal(),  # records are progress enough there
    )
    with _open_output(ready, io) as opened, ctrl_c_as_flag() as pressed, progress:
        view = BatchView(
            model,
            opened,
            notes,
            progress,
            as_text=io.as_text,
            bytes_taken=lambda: items.bytes_taken,
        )
        run = BatchRun(
            items,
            view.show,
            slots=model.engine.max_slots,
            interrupted=lambda: pressed() or opened.is_abandoned(),
        )
        run.run(model.engine, model.tokenizer, model.sampler, counts=ready.counts)
        abandoned = opened.is_abandoned()
    if pressed() and journal is not None:
        notes.note(f"interrupted after {progress.records} records; --resume goes on from there")
    if pressed() or abandoned:
        raise typer.Exit(exit_codes.INTERRUPTED if pressed() else exit_codes.DONE)
    notes.note(progress.summarise())
    return progress.errors + (0 if journal is None else journal.errors)


def _is_stdout_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _open_output(ready: "ReadyBatch", io: InputOutput) -> "ResultWriter | Journal":
    from gpt2cli.terminal.result import open_result

    return open_result(io.output) if ready.journal is None else ready.journal


def _report(ready: "ReadyBatch", notes: "Notes") -> None:
    from gpt2cli.terminal.statistics import describe_run

    notes.report(f"batch size {ready.model.engine.max_slots}")
    for line in describe_run(
        ready.model,
        ready.counts,
        seed=ready.run_seed,
        first_token_seconds=None,
        from_model=ready.from_model,
    ):
        notes.report(line)
