"""`gpt2 generate`: one prompt, one or several completions, streamed as they are made."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpt2cli import exit_codes
from gpt2cli.config import (
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
from gpt2cli.option_kinds import FILE, SWITCH, TEXT, option
from gpt2cli.options import takes
from gpt2cli.settings import Settings

if TYPE_CHECKING:
    from gpt2cli.commands.start import ReadyRequest
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import ResultWriter
    from gpt2cli.terminal.samples import SampleView


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where the prompt comes from, beside the argument, and what is written, and where."""

    file: Path | None = option(
        None, "Read the prompt from FILE; - is stdin.", REPORT,
        kind=FILE, short="-f", usual="the argument, or stdin", settable=False,
    )  # fmt: skip
    separator: str = option(
        "---", r"Line between samples; \n and \t are understood.", REPORT, kind=TEXT, settable=False
    )
    echo: bool = option(
        True, "Print the prompt before its completion. Default --echo; --no-echo: the completion "
        "alone.", REPORT, kind=SWITCH, settable=False,
    )  # fmt: skip
    json: bool = option(
        False, "Print one JSON record per sample, not text.", REPORT, kind=SWITCH, settable=False
    )
    output: Path | None = option(
        None, "Write the result to FILE, whole or not at all; - is stdout.", REPORT,
        kind=FILE, short="-o", usual="stdout", settable=False,
    )  # fmt: skip


@takes(
    SamplingConfig, SeedConfig, BeamConfig, GenerationConfig, ConstraintConfig, SampleConfig,
    TextConfig, InputOutput, ReportConfig, ModelConfig,
)  # fmt: skip
def generate(
    *,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT",
            show_default=False,
            help="Text to continue. - is stdin, which is also read if there is no prompt; "
            '"" starts without any.',
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Continue a prompt.

    Prints the prompt and its completion to stdout as they are made; everything else goes to stderr.

    For example:

    gpt2 generate "Once upon a time" -n 100

    gpt2 generate "The answer is" --greedy --json | jq -r .completion
    """
    from gpt2cli.commands.text import find_stdin, read_prompt, refuse_overwriting
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result

    stdin, io, report = find_stdin(), settings.make(InputOutput), settings.make(ReportConfig)
    if settings.values["logprobs"] is not None and not io.json:
        raise UsageError(option="logprobs", expected="{json} too, whose records tell them")
    text = read_prompt(prompt, io.file, stdin=stdin)
    refuse_overwriting(io.output, [io.file] if io.file else [], stdin=stdin)
    with Notes(quiet=report.quiet) as notes, open_result(io.output) as writer:
        from gpt2cli.commands.start import get_ready  # heavy: not for --help or a bad prompt

        ready = get_ready(text, settings, listener=notes)
        notes.pause()
        view = _choose_view(ready, writer, io)
        first_token_seconds = _stream(ready, view, notes, writer)
        if report.stats:
            _report(ready, first_token_seconds, notes)


def _choose_view(ready: "ReadyRequest", writer: "ResultWriter", io: InputOutput) -> "SampleView":
    from gpt2cli.terminal.samples import RecordView, TextView

    request = ready.prepared.request
    if io.json:
        return RecordView(writer, request=request, model=ready.model)
    prompt = request.prompt if io.echo else ""
    return TextView(writer, prompt=prompt, separator=io.separator)


def _stream(
    ready: "ReadyRequest", view: "SampleView", notes: "Notes", writer: "ResultWriter"
) -> float | None:
    """Show all chunks; return when the first text was there, in seconds of the process.

    It ends early once nobody reads any more.

    Raises:
        Exit: after Ctrl-C, when all that was made has been shown and the last line is finished.
    """
    from gpt2cli.generation import FinishReason
    from gpt2cli.terminal.interrupt import ctrl_c_as_flag
    from gpt2cli.terminal.statistics import describe_cut, process_seconds

    engine = ready.model.engine
    first_token_seconds = None
    at_limit = False
    cuts: list[str] = []
    with ctrl_c_as_flag() as interrupted:
        try:
            view.begin()
            for chunk in ready.run(lambda: interrupted() or writer.is_abandoned()):
                view.show(chunk)
                if first_token_seconds is None and chunk.text:
                    first_token_seconds = process_seconds()
                if chunk.finish is not None:
                    at_limit |= chunk.finish.reason is FinishReason.CONTEXT
                    cuts = describe_cut(chunk.finish, engine.shape.n_positions)
        except Exception:
            view.end()
            raise
        view.end()
    for line in cuts:
        notes.note(line)
    if interrupted():
        writer.keep(notes)
        raise typer.Exit(exit_codes.INTERRUPTED)
    if at_limit:
        limit = engine.shape.n_positions
        way_out = "" if ready.prepared.request.search.on else "; --overflow slide goes on"
        notes.note(f"stopped at the model's limit of {limit} tokens{way_out}")
    return first_token_seconds


def _report(ready: "ReadyRequest", first_token_seconds: float | None, notes: "Notes") -> None:
    from gpt2cli.terminal.statistics import describe_run

    for line in describe_run(
        ready.model,
        ready.counts,
        seed=ready.prepared.request.seed,
        first_token_seconds=first_token_seconds,
        from_model=ready.from_model,
    ):
        notes.report(line)
