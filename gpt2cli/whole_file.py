"""Writes files that take their names only when they are whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from export.whole import PartialFile
from gpt2cli.errors import OutputError


@contextmanager
def replacing(path: Path, *, flush_name: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write that becomes `path` at the end; after an exception it is gone.

    A link is followed, and a file that is replaced gives its mode to the new one. Without
    `flush_name` a power cut may bring back the old file, whole.

    Raises:
        OutputError: if it cannot be written.
    """
    with _translated(path):
        partial = PartialFile(path)
    with partial:
        yield partial.file
        with _translated(path):
            partial.take_name(flush_name=flush_name)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
