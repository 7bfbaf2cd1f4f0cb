"""Reads the texts that a command takes: one as an argument or from stdin, or some from files."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from export.small_files import ReadError, decode
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.option_kinds import from_bytes

_STDIN: Final = 0
_BLOCK: Final = 1 << 16
MOST_BYTES: Final = 1 << 29  # of a text: a device such as /dev/zero never ends


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text, and the name of its file if it has one."""

    name: str | None
    text: str


def find_stdin() -> int | None:
    """Return stdin's file descriptor; None if the program was started without one."""
    return None if sys.stdin is None else _STDIN


def read_texts(
    what: str,
    argument: str | None,
    files: Sequence[Path],
    *,
    stdin: int | None,
    example: str,
    most_bytes: int = MOST_BYTES,
) -> list[NamedText]:
    """Return the texts; from a file or stdin one trailing newline is dropped.

    `what`: prompt or text; `example`: a use of the command. `stdin`, a file descriptor, is read
    only for `-` or if there is no text.

    Raises:
        UsageError: if there are both kinds or none, or the argument is not UTF-8.
        PromptError: if a file or stdin cannot be read, is not UTF-8, or has more bytes than that.
    """
    if argument is not None and files:
        raise UsageError(option="file", expected=f"no {what} argument together with it")
    if files:
        return [NamedText(str(file), _read(file, stdin, most_bytes)) for file in files]
    if argument is not None and argument != "-":
        return [NamedText(None, from_bytes(argument, subject=f"the {what} argument"))]
    if argument is None and (stdin is None or os.isatty(stdin)):
        raise UsageError(f"expected a {what}, for example: {example}")
    return [NamedText(None, _read(Path("-"), stdin, most_bytes))]


def _read(file: Path, stdin: int | None, most_bytes: int) -> str:
    if str(file) != "-":
        return _read_from(file, str(file), most_bytes, file=file)
    if stdin is None:
        raise PromptError("cannot read stdin: it is closed")
    return _read_from(stdin, "stdin", most_bytes)


def _read_from(source: Path | int, name: str, most_bytes: int, *, file: Path | None = None) -> str:
    """Read without sys.stdin: a thread that is blocked in it can abort Python at exit."""
    blocks, size = [], 0
    try:
        with open(source, "rb", buffering=0, closefd=file is not None) as opened:
            while block := os.read(opened.fileno(), _BLOCK):
                blocks.append(block)
                size += len(block)
                if size > most_bytes:
                    raise PromptError(f"{name} has more than {most_bytes} bytes; cut it in parts")
    except OSError as error:
        option = None if file is None else "file"
        raise PromptError(f"cannot read {name}: {error.strerror}", option=option) from error
    try:
        text = decode(b"".join(blocks), file=file)
    except ReadError as error:
        raise PromptError(f"{name} {error}") from error
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
