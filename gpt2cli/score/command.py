"""`gpt2 score`: its options, and its texts."""

from typing import Annotated

import typer

from gpt2cli.config import ModelConfig, ReportConfig, ScoringConfig, TextConfig
from gpt2cli.options import takes
from gpt2cli.score.config import InputOutput
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result, refuse_overwriting
from gpt2cli.text_input import Stdin, find_stdin, read_texts


@takes(ScoringConfig, TextConfig, InputOutput, ReportConfig, ModelConfig)
def score(
    *,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            show_default=False,
            help="Text to score, after what stdin holds if that is a file or a pipe. - is stdin "
            "alone, which is also read if there is no text.",
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

    With --lines every line of a file or of stdin is a text of its own, and many
    are scored at once.

    For example:

    gpt2 score "The cat sat on the mat"

    gpt2 score -f a.txt -f b.txt | grep ^perplexity

    gpt2 score --lines -f sentences.txt -o scores.txt --resume
    """
    io, stdin = settings.make(InputOutput), find_stdin()
    io.check(text, top=settings.values["top"])
    if io.lines:
        from gpt2cli.score.run_lines import run_lines  # heavy, as below

        code = run_lines(settings, io)
        if code:
            raise typer.Exit(code)
        return
    example = 'gpt2 score "The cat sat on the mat"'
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        source = Stdin(stdin, io.stdin, notes.note)
        texts = read_texts("text", text, io.file, stdin=source, example=example)
        output = io.html or io.output
        refuse_overwriting(output, io.file, stdin=stdin, option="html" if io.html else "output")
        with open_result(output) as writer:
            from gpt2cli.score.run import run  # heavy: not for --help or a missing file

            run(texts, settings, io, notes, writer)
