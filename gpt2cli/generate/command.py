"""`gpt2 generate`: its options, and its prompt."""

from typing import Annotated

import typer

from gpt2cli.config import (
    OF_A_PROMPT,
    DraftConfig,
    ModelConfig,
    PresetConfig,
    ReportConfig,
    ServerConfig,
)
from gpt2cli.errors import UsageError
from gpt2cli.generate.config import InputOutput
from gpt2cli.generate.showing import Samples, show
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result, refuse_overwriting
from gpt2cli.text_input import Stdin, find_stdin, read_texts


@takes(
    *OF_A_PROMPT, InputOutput, PresetConfig, ReportConfig, ModelConfig, DraftConfig, ServerConfig
)
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
            samples = _get_ready(text.text, settings, io, notes)
            show(samples, text.text, settings, io=io, notes=notes, writer=writer)


def _get_ready(prompt: str, settings: Settings, io: InputOutput, notes: Notes) -> Samples:
    server = settings.make(ServerConfig)
    if server.on:
        from gpt2cli.generate.calling import find_address, read_key  # not for --help
        from gpt2cli.generate.remote import ask_server

        address, key = find_address(server.server), read_key(io.api_key_file)
        return ask_server(prompt, settings, address, key, listener=notes)
    from gpt2cli.generate.run import get_ready  # heavy: not for --help or a bad prompt

    return get_ready(prompt, settings, listener=notes)
