"""`gpt2 generate`: one prompt, one or several completions, streamed as they are made."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpt2cli import exit_codes
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.options import (
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    OutputOptions,
    PromptOptions,
    ReportOptions,
    SamplingOptions,
    SearchOptions,
)

if TYPE_CHECKING:
    from gpt2cli.commands.start import ReadyRequest
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import ResultWriter
    from gpt2cli.terminal.samples import SampleView


@flatten
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
    sampling: SamplingOptions,
    search: SearchOptions,
    limits: LimitOptions,
    constraint: ConstraintOptions,
    source: PromptOptions,
    output: OutputOptions,
    report: ReportOptions,
    model: ModelOptions,
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

    stdin = find_stdin()
    text = read_prompt(prompt, source.file, stdin=stdin)
    refuse_overwriting(output.output, [source.file] if source.file else [], stdin=stdin)
    with Notes(quiet=report.quiet) as notes, open_result(output.output) as writer:
        from gpt2cli.commands.start import get_ready  # heavy: not for --help or a bad prompt

        ready = get_ready(
            text,
            sampling=sampling,
            search=search,
            limits=limits,
            constraint=constraint,
            model=model,
            samples=output.samples,
            logprobs=output.logprobs,
            allow_special=source.allow_special,
            listener=notes,
        )
        notes.pause()
        view = _choose_view(ready, writer, output)
        first_token_seconds = _stream(ready, view, notes, writer)
        if report.stats:
            _report(ready, first_token_seconds, notes)


def _choose_view(
    ready: "ReadyRequest", writer: "ResultWriter", output: OutputOptions
) -> "SampleView":
    from gpt2cli.terminal.samples import RecordView, TextView

    request = ready.prepared.request
    if output.json:
        return RecordView(writer, request=request, model=ready.model)
    prompt = request.prompt if output.echo else ""
    return TextView(writer, prompt=prompt, separator=output.separator)


def _stream(
    ready: "ReadyRequest", view: "SampleView", notes: "Notes", writer: "ResultWriter"
) -> float | None:
    """Show all chunks; return when the first text was there, in seconds of the process.

    It ends early once nobody reads any more.

    Raises:
        Exit: after Ctrl-C, when all that was made has been shown and the last line is finished.
    """
    from gpt2cli.generation import FinishReason
    from gpt2cli.loading import note_fewer_slots
    from gpt2cli.terminal.interrupt import ctrl_c_as_flag
    from gpt2cli.terminal.statistics import describe_cut, process_seconds

    engine = ready.model.engine
    slots = engine.max_slots
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
    note_fewer_slots(engine, slots, notes)
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
