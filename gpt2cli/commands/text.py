"""Text from the user: prompts from the argument, a file or stdin, and escapes in options."""

import os
import sys
from pathlib import Path
from typing import Final

from gpt2cli.errors import PromptError, UsageError

_STDIN: Final = 0
_BLOCK: Final = 1 << 16


def read_prompt(argument: str | None, file: Path | None) -> str:
    """Return the prompt; from a file or stdin one trailing newline is dropped.

    stdin is read only if it is asked for, by `-` or by giving no prompt at all.

    Raises:
        UsageError: if there are two prompts or none, or the argument is not UTF-8.
        PromptError: if the file cannot be read or is not UTF-8.
    """
    if argument is not None and file is not None:
        raise UsageError("give the prompt as an argument or by --file, not both")
    if argument is not None and argument != "-":
        return _check_argument(argument)
    if file is not None and str(file) != "-":
        return _decode(_read_file(file), str(file))
    if argument is None and file is None and _stdin_is_terminal():
        raise UsageError('expected a prompt, for example: gpt2 generate "Once upon a time"')
    return _decode(_read_stdin(), "stdin")


def unescape(text: str) -> str:
    r"""Return text from the command line with \n, \t, \r and \\ as the characters they mean."""
    known = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    pieces = iter(text)
    result = ""
    for character in pieces:
        following = next(pieces, "") if character == "\\" else ""
        result += known.get(following, character + following) if following else character
    return result


def _check_argument(argument: str) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the prompt argument is not valid UTF-8; pass such text through iconv -t UTF-8"
        ) from error
    return argument


def _stdin_is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PromptError(f"--file: cannot read {file}: {error.strerror}") from error


def _read_stdin() -> bytes:
    """Read file descriptor 0 to its end: a thread blocked in sys.stdin can abort Python at exit."""
    blocks = []
    try:
        while block := os.read(_STDIN, _BLOCK):
            blocks.append(block)
    except OSError as error:
        raise PromptError(f"cannot read stdin: {error.strerror}") from error
    return b"".join(blocks)


def _decode(raw: bytes, source: str) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise PromptError(
            f"{source} is not valid UTF-8 (byte {error.start}): convert it with iconv -t UTF-8"
        ) from error
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
