"""Where the records of a run come from, and whether it can be resumed where its results go."""

import os
import stat
from pathlib import Path

from gpt2cli.errors import PromptError, UsageError
from gpt2cli.resumable.journal import journal_path
from gpt2cli.terminal.result import is_direct, refuse_overwriting


def open_input(file: str | None, *, stdin: int | None, what: str, example: str) -> int:
    """Open FILE, or stdin where there is none or it is `-`; `what` are prompts, or texts.

    Raises:
        UsageError: if stdin is a terminal, or closed; the error has the example.
        PromptError: if the file cannot be read.
    """
    if file is None or file == "-":
        if stdin is None or (file is None and os.isatty(stdin)):
            raise UsageError(f"expected {what}, for example: {example}")
        return stdin
    try:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 0)  # a folder can be opened, but not read
    except OSError as error:
        raise PromptError(f"cannot read {file}: {error.strerror}") from error
    return descriptor


def find_size(descriptor: int) -> int | None:
    """Return the size of a regular file, in bytes."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def find_resumable(descriptor: int, path: Path | None, *, resume: bool) -> Path | None:
    """Return the file for results, if a run that writes them can be resumed; else None.

    Raises:
        UsageError: if it is the input, or there is none to resume.
    """
    if path is None or is_direct(path):
        if resume:
            raise UsageError(f"{path} is not a file that can be continued", option="resume")
        return None
    for written in (path, journal_path(path)):  # the input may be an old journal too
        refuse_overwriting(written, [], stdin=descriptor)
    return path
