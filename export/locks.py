"""Locks files and folders against other processes, with no file of its own beside them.

The lock is of the file itself, by whatever name it was opened, and ends with its process.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed.

    Returns False if another process has locked it, and None where there are no such locks: on
    Windows, and on some network file systems.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for the same folder, and keep them out.

    Raises:
        OSError: if the folder cannot be opened.
    """
    if sys.platform == "win32":  # opens no folders
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
