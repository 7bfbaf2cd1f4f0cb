"""The texts that a command takes: one as an argument or from stdin, or some from files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpt2cli.commands.text import decode_argument, read_prompt
from gpt2cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text, and the name of its file if it has one."""

    name: str | None
    text: str


def read_texts(
    argument: str | None, files: Sequence[Path], *, stdin: int | None, example: str
) -> list[NamedText]:
    """Return the texts; from a file or stdin one trailing newline is dropped.

    `stdin`, a file descriptor, is read only if it is asked for, by `-` or by giving no text.

    Raises:
        UsageError: if there are both kinds or none (`example` is a use), or one is not UTF-8.
        PromptError: if a file or stdin cannot be read or is not UTF-8.
    """
    if argument is not None and files:
        raise UsageError("give the text as an argument or by --file, not both")
    if files:
        return [NamedText(str(file), read_prompt(None, file, stdin=stdin)) for file in files]
    if argument is not None and argument != "-":
        return [NamedText(None, decode_argument(argument, "the text argument"))]
    if argument is None and (stdin is None or os.isatty(stdin)):
        raise UsageError(f"expected a text, for example: {example}")
    return [NamedText(None, read_prompt("-", None, stdin=stdin))]
