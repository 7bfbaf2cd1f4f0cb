"""`gpt2 batch`: a record in, a record out, many at once, in order."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpt2cli import exit_codes
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.options import (
    BatchInputOptions,
    BatchOutputOptions,
    ConstraintOptions,
    FormatChoice,
    LimitOptions,
    ModelOptions,
    ReportOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.errors import UsageError

if TYPE_CHECKING:
    from gpt2cli.batch import Journal
    from gpt2cli.commands.start_batch import ReadyBatch
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import ResultWriter


@flatten
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
    sampling: SamplingOptions,
    search: SearchOptions,
    limits: LimitOptions,
    constraint: ConstraintOptions,
    source: BatchInputOptions,
    output: BatchOutputOptions,
    report: ReportOptions,
    model: ModelOptions,
) -> None:
    """Complete many prompts, side by side, with a record for each in the order of the input.

    A record goes out as soon as it and all before it are done; a bad one becomes
    a record with "error", and the rest goes on.

    For example:

    cat prompts.txt | gpt2 batch -n 50 > records.jsonl

    gpt2 batch prompts.jsonl -o records.jsonl --resume
    """
    from gpt2cli.commands.text import find_stdin
    from gpt2cli.terminal.notes import Notes

    with Notes(quiet=report.quiet) as notes:
        # Heavy: not for --help.
        from gpt2cli.commands.start_batch import get_batch_ready, open_input

        ready = get_batch_ready(
            open_input(_choose_file(prompts, source), stdin=find_stdin()),
            sampling=sampling,
            search=search,
            limits=limits,
            constraint=constraint,
            source=source,
            output=output,
            model=model,
            listener=notes,
        )
        notes.pause()
        errors = _run(ready, output, notes)
        if report.stats:
            _report(ready, notes)
    if errors:
        raise typer.Exit(exit_codes.FAILED)


def _choose_file(argument: str | None, source: BatchInputOptions) -> str | None:
    if source.file is None:
        return argument
    if argument is not None:
        raise UsageError("give FILE as the argument or by --file, not both")
    return str(source.file)


def _run(ready: "ReadyBatch", output: BatchOutputOptions, notes: "Notes") -> int:
    """Run the batch and return how many records were errors.

    Raises:
        Exit: after Ctrl-C, or when nobody reads any more; what was done has been written.
    """
    from gpt2cli.batch import BatchRun
    from gpt2cli.loading import note_fewer_slots
    from gpt2cli.terminal.batch_view import BatchView
    from gpt2cli.terminal.interrupt import ctrl_c_as_flag
    from gpt2cli.terminal.progress import BatchProgress

    model, items, journal = ready.model, ready.items, ready.journal
    slots = model.engine.max_slots
    progress = BatchProgress(
        notes,
        total_bytes=ready.input_bytes,
        done=0 if journal is None else journal.done,
        done_errors=0 if journal is None else journal.errors,
        hidden=journal is None and _is_stdout_a_terminal(),  # records are progress enough there
    )
    with _open_output(ready, output) as opened, ctrl_c_as_flag() as pressed, progress:
        view = BatchView(
            model,
            opened,
            notes,
            progress,
            as_text=output.format is FormatChoice.TEXT,
            bytes_taken=lambda: items.bytes_taken,
        )
        run = BatchRun(
            items,
            view.show,
            slots=slots,
            interrupted=lambda: pressed() or opened.is_abandoned(),
        )
        run.run(model.engine, model.tokenizer, model.sampler, counts=ready.counts)
        abandoned = opened.is_abandoned()
    note_fewer_slots(model.engine, slots, notes)
    if pressed() and journal is not None:
        notes.note(f"interrupted after {progress.records} records; --resume goes on from there")
    if pressed() or abandoned:
        raise typer.Exit(exit_codes.INTERRUPTED if pressed() else exit_codes.DONE)
    notes.note(progress.summarise())
    return progress.errors + (0 if journal is None else journal.errors)


def _is_stdout_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _open_output(ready: "ReadyBatch", output: BatchOutputOptions) -> "ResultWriter | Journal":
    from gpt2cli.terminal.result import open_result

    return open_result(output.output) if ready.journal is None else ready.journal


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
