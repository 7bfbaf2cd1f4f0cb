"""`gpt2 generate`: its options, and its prompt."""

from typing import Annotated

import typer

from gpt2cli.config import OF_A_PROMPT, DraftConfig, ModelConfig, PresetConfig, ReportConfig
from gpt2cli.errors import UsageError
from gpt2cli.generate.config import InputOutput
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result, refuse_overwriting
from gpt2cli.text_input import Stdin, find_stdin, read_texts


@takes(*OF_A_PROMPT, InputOutput, PresetConfig, ReportConfig, ModelConfig, DraftConfig)
def generate(
    *,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT",
            show_default=False,
            help="Text to continue, after what stdin holds if that is a file or a pipe. - is stdin "
            'alone, which is also read if there is no prompt; "" starts without any.',
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
    io = settings.make(InputOutput)
    if settings.values["logprobs"] is not None and not io.json:
        raise UsageError(option="logprobs", expected="{json} too, whose records hold them")
    files, stdin = [io.file] if io.file else [], find_stdin()
    example = 'gpt2 generate "Once upon a time"'
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        source = Stdin(stdin, io.stdin, notes.note)
        [text] = read_texts("prompt", prompt, files, stdin=source, example=example)
        refuse_overwriting(io.output, files, stdin=stdin)
        with open_result(io.output) as writer:
            from gpt2cli.generate.run import run  # heavy: not for --help or a bad prompt

            run(text.text, settings, io, notes, writer)
