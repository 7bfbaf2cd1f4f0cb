"""`gpt2 score`: the log-probability of each token of a text, and the perplexity."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpt2cli import exit_codes
from gpt2cli.config import REPORT, ModelConfig, ReportConfig, TextConfig
from gpt2cli.option_kinds import FILE, SWITCH, option
from gpt2cli.options import takes
from gpt2cli.scoring_config import ScoringConfig
from gpt2cli.settings import Settings

if TYPE_CHECKING:
    from gpt2cli.commands.start_score import EncodedText, ReadyTexts
    from gpt2cli.scoring import Totals
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import ResultWriter
    from gpt2cli.terminal.score_progress import ScoreProgress
    from gpt2cli.terminal.score_view import ScoreView


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where texts come from, beside the argument, what is written of the scores, and where."""

    file: tuple[Path, ...] = option(
        (), "Read a text from FILE; repeatable; - is stdin.", REPORT,
        kind=FILE, short="-f", repeatable=True, usual="the argument, or stdin", settable=False,
    )  # fmt: skip
    json: bool = option(
        False, "Print one JSON record per text.", REPORT, kind=SWITCH, settable=False
    )
    output: Path | None = option(
        None, "Write the result to FILE, whole or not at all; - is stdout.", REPORT,
        kind=FILE, short="-o", usual="stdout", settable=False,
    )  # fmt: skip


@takes(ScoringConfig, TextConfig, InputOutput, ReportConfig, ModelConfig)
def score(
    *,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            show_default=False,
            help="Text to score. - is stdin, which is also read if there is no text.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Tell how likely a text is: each token's log-probability, and the perplexity.

    On a terminal the text is shown, coloured by the probability of its tokens.
    In a pipe, and with --top or NO_COLOR, each line is a token: its natural
    log-probability, a tab, and the token in quotes. The last line is
    "perplexity", its value, the number of tokens, and the file if it is one.

    A text longer than the model's context is read in windows; each token is
    scored once.

    For example:

    gpt2 score "The cat sat on the mat"

    gpt2 score -f a.txt -f b.txt | grep ^perplexity
    """
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result, refuse_overwriting
    from gpt2cli.text_input import find_stdin, read_texts

    example = 'gpt2 score "The cat sat on the mat"'
    stdin, io, report = find_stdin(), settings.make(InputOutput), settings.make(ReportConfig)
    texts = read_texts("text", text, io.file, stdin=stdin, example=example)
    refuse_overwriting(io.output, io.file, stdin=stdin)
    with Notes(quiet=report.quiet) as notes, open_result(io.output) as writer:
        # Heavy: not for --help or a missing file.
        from gpt2cli.commands.start_score import get_scoring_ready
        from gpt2cli.terminal.score_progress import ScoreProgress, describe_scoring

        ready = get_scoring_ready(texts, settings, listener=notes)
        notes.pause()
        view = _choose_view(ready, writer, json=io.json, coloured=not ready.top)
        hidden = writer.on_terminal and not io.json  # the text is progress enough
        progress = ScoreProgress(notes, total=ready.total_tokens, hidden=hidden)
        _show_texts(ready, view, progress, notes, writer)
        if report.stats:
            told = describe_scoring(
                ready.model, tokens=ready.total_tokens, seconds=progress.seconds
            )
            for line in told:
                notes.report(line)


def _choose_view(
    ready: "ReadyTexts", writer: "ResultWriter", *, json: bool, coloured: bool
) -> "ScoreView":
    from gpt2cli.terminal.score_view import ColouredView, LineView, RecordView

    if json:
        return RecordView(writer, model=ready.model, stride=ready.stride)
    piece_of = ready.model.tokenizer.spell
    if coloured and writer.coloured:
        return ColouredView(writer, piece_of)
    return LineView(writer, piece_of)


def _show_texts(
    ready: "ReadyTexts",
    view: "ScoreView",
    progress: "ScoreProgress",
    notes: "Notes",
    writer: "ResultWriter",
) -> None:
    """Score all texts, until Ctrl-C or until nobody reads any more.

    Raises:
        Exit: if it ended early; what was scored until then has been shown.
    """
    from gpt2cli.terminal.interrupt import ctrl_c_as_flag

    with ctrl_c_as_flag() as pressed, progress:
        for text in ready.texts:
            totals = _show_text(
                ready, text, view, progress, stopped=lambda: pressed() or writer.is_abandoned()
            )
            if totals is None:
                if pressed():
                    progress.pause()
                    writer.keep(notes)
                raise typer.Exit(exit_codes.INTERRUPTED if pressed() else exit_codes.DONE)
            progress.pause()
            view.end(totals)


def _show_text(
    ready: "ReadyTexts",
    text: "EncodedText",
    view: "ScoreView",
    progress: "ScoreProgress",
    *,
    stopped: Callable[[], bool],
) -> "Totals | None":
    """Score one text; None if it was stopped before its end."""
    from gpt2cli.scoring import Totals

    totals = Totals()
    view.begin(text.name)
    try:
        with closing(ready.score(text)) as scores:
            for some in scores:
                if stopped():
                    return None
                view.add(some)
                totals.add(some)
                progress.add(len(some))
    finally:
        view.stop()
    return totals
