"""The options of `gpt2 score`, and its texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from gpt2cli.config import (
    ModelConfig,
    ReportConfig,
    TextConfig,
    file_option,
    json_option,
    output_option,
)
from gpt2cli.option_kinds import WHOLE, Range, option
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result, refuse_overwriting
from gpt2cli.text_input import find_stdin, read_texts

_SCORING: Final = "Scoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringConfig:
    """How texts are scored."""

    stride: int | None = option(
        None, "Distance in tokens between the starts of a long text's windows. A smaller one gives "
        "more context and is slower.", _SCORING,
        kind=WHOLE, within=Range(1, words="1 or more, and less than the model's context"),
        usual="half of the context", settable=False,
    )  # fmt: skip
    top: int = option(
        0, "Also tell the N likeliest tokens at each index.", _SCORING,
        kind=WHOLE, within=Range(0), off="0: off", settable=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where texts come from, beside the argument, what is written of the scores, and where."""

    file: tuple[Path, ...] = file_option(
        (), "Read a text from FILE; repeatable; - is stdin.", "the argument, or stdin"
    )
    json: bool = json_option("Print one JSON record per text.")
    output: Path | None = output_option()


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
    """Show how likely a text is: each token's log-probability, and the perplexity.

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
    io, how, stdin = settings.make(InputOutput), settings.make(ScoringConfig), find_stdin()
    example = 'gpt2 score "The cat sat on the mat"'
    texts = read_texts("text", text, io.file, stdin=stdin, example=example)
    refuse_overwriting(io.output, io.file, stdin=stdin)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes, open_result(io.output) as writer:
        from gpt2cli.score.run import run  # heavy: not for --help or a missing file

        run(
            texts,
            settings,
            stride=how.stride,
            top=how.top,
            as_records=io.json,
            notes=notes,
            writer=writer,
        )
