"""Text from the user: prompts from the argument, a file or stdin, and escapes in options."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from export.small_files import ReadError, decode
from gpt2cli.errors import PromptError, UsageError

_STDIN: Final = 0
_BLOCK: Final = 1 << 16


def find_stdin() -> int | None:
    """Return stdin's file descriptor; None if the program was started without one."""
    return None if sys.stdin is None else _STDIN


def read_prompt(argument: str | None, file: Path | None, *, stdin: int | None) -> str:
    """Return the prompt; from a file or stdin one trailing newline is dropped.

    `stdin`, a file descriptor, is read only if it is asked for, by `-` or by giving no prompt.

    Raises:
        UsageError: if there are two prompts or none, or the argument is not UTF-8.
        PromptError: if the file cannot be read or is not UTF-8.
    """
    if argument is not None and file is not None:
        raise UsageError("give the prompt as an argument or by --file, not both")
    if argument is not None and argument != "-":
        return decode_argument(argument, "the prompt argument")
    if file is not None and str(file) != "-":
        return _decode(_read_file(file), str(file), file)
    if argument is None and file is None and (stdin is None or os.isatty(stdin)):
        raise UsageError('expected a prompt, for example: gpt2 generate "Once upon a time"')
    if stdin is None:
        raise PromptError("cannot read stdin: it is closed")
    return _decode(_read_to_end(stdin), "stdin", None)


def decode_argument(argument: str, name: str) -> str:
    """Return an argument's text as UTF-8, whatever Python took it for in this locale.

    Raises:
        UsageError: if it is not UTF-8; `name` says what it is.
    """
    try:
        return os.fsencode(argument).decode()
    except UnicodeError as error:
        raise UsageError(f"{name} is not valid UTF-8") from error


def refuse_overwriting(output: Path | None, files: Iterable[Path], *, stdin: int | None) -> None:
    """Refuse a result file that is one of the inputs, whose place it would take.

    Raises:
        UsageError: if it is.
    """
    from gpt2cli.terminal.result import is_direct  # only where something is run

    if output is None:
        return
    sources: list[Path | int] = [*files] if stdin is None else [*files, stdin]
    for source in sources:
        try:
            same = os.path.samestat(os.stat(source), output.stat())  # noqa: PTH116
            taken = same and not is_direct(output)
        except OSError:  # which is told where it is read or written
            continue
        if taken:
            raise UsageError(f"{output} is the input", option="output")


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PromptError(f"cannot read {file}: {error.strerror}", option="file") from error


def _read_to_end(stdin: int) -> bytes:
    """Read without sys.stdin: a thread that is blocked in it can abort Python at exit."""
    blocks = []
    try:
        while block := os.read(stdin, _BLOCK):
            blocks.append(block)
    except OSError as error:
        raise PromptError(f"cannot read stdin: {error.strerror}") from error
    return b"".join(blocks)


def _decode(raw: bytes, source: str, file: Path | None) -> str:
    try:
        text = decode(raw, file=file)
    except ReadError as error:
        raise PromptError(f"{source} {error}") from error
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
