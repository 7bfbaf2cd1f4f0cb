"""Writes files that take their names only when they are whole."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpt2cli.errors import OutputError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that becomes `path` at the end; after an exception it is gone.

    A link is followed, and a file that is replaced gives its mode to the new one.

    Raises:
        OutputError: if it cannot be written.
    """
    path = Path(os.path.realpath(path))
    if os.access(path, os.F_OK) and not os.access(path, os.W_OK):  # a new file would take its place
        raise OutputError(f"cannot write {path}: Permission denied")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".gpt2-")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    temporary = Path(name)
    file = os.fdopen(handle, "wb")
    try:
        yield file
        try:
            file.flush()
            os.fsync(file.fileno())
            file.close()
            temporary.chmod(_mode_of(path))
            temporary.replace(path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # what failed before fails again
            file.close()
        temporary.unlink(missing_ok=True)


def _mode_of(path: Path) -> int:
    """Return the mode of the file that is replaced, or that of a new file."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
