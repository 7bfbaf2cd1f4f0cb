"""Writes files and folders that take their names only when they are whole.

Until then they are hidden beside it as `.NAME.XXXXXXXX.partial`, locked while their process lives.
Unlocked ones are left by a killed process, and are removed when the same name is written again. The
content is flushed to disk before it gets the name, and the folder that holds the name after: a
power cut too leaves the old or the new, whole.
"""

import errno
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_PARTIAL: Final = ".partial"
_REPLACED: Final = ".replaced"
_RANDOM: Final = "[a-z0-9_]{8}"
# With dots, the random part and the ending at most 255 bytes, however the name is encoded.
_LONGEST_STEM: Final = 59
_DEAD_AFTER_SECONDS: Final = 3600.0  # where no lock tells


@contextmanager
def replacing(path: Path, *, flush_name: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write that becomes `path` at the end; after an exception it is gone.

    A link is followed, and a file that is replaced gives its mode to the new one. Without
    `flush_name` a power cut may bring back the old file, whole.

    Raises:
        OSError: if it cannot be written, or `path` is protected; what stood there stays.
    """
    target = Path(os.path.realpath(path))
    if os.access(target, os.F_OK) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    with _partial(target, folder=False) as (partial, descriptor):
        file = os.fdopen(descriptor, "wb")
        try:
            yield file
            partial.chmod(_mode_of(target))
            file.flush()
            os.fsync(descriptor)
            if sys.platform == "win32":  # renames nothing that is open
                file.close()
            partial.replace(target)
        finally:
            with suppress(OSError):  # what failed before fails again
                file.close()
        if flush_name:
            sync_folder(target.parent)


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """Give a folder to fill with files that becomes `target` at the end, as `replacing` does.

    Raises:
        OSError: if it cannot be written; what stood there stays.
    """
    put_back(target)
    if os.path.lexists(target):
        for aside in _find_beside(target.parent, target.name, _REPLACED):
            _remove(aside)
    with _partial(target, folder=True) as (partial, descriptor):
        try:
            yield partial
            for path in partial.rglob("*"):
                sync_folder(path) if path.is_dir() else _sync_file(path)
            partial.chmod(0o777 & ~_umask())  # until then it is private
            sync_folder(partial)
            replaced = _swap_in(partial, target)
            sync_folder(target.parent)
            if replaced is not None:
                _remove(replaced)
        finally:
            if descriptor >= 0:
                os.close(descriptor)


@contextmanager
def _partial(target: Path, *, folder: bool) -> Iterator[tuple[Path, int]]:
    """Give what will take the name `target`, and its open descriptor, to be closed in the block."""
    remove_leftovers(target.parent, target.name)
    path = target.with_name(f".{target.name[:_LONGEST_STEM]}.{os.urandom(4).hex()}{_PARTIAL}")
    try:  # from before it is there: a signal may raise anywhere
        yield path, _make_locked(path, folder=folder)
    finally:
        with suppress(OSError):  # it has taken its name; a folder's may be that of the old one now
            _remove(path)


def give_name(path: Path, target: Path) -> None:
    """Rename a file that is whole; a power cut leaves it whole, or without its new name.

    Raises:
        OSError: if it cannot be renamed.
    """
    _sync_file(path)
    path.replace(target)
    sync_folder(target.parent)


def put_back(target: Path) -> bool:
    """Put back the folder that a killed process had moved aside to replace it.

    Only where the system cannot exchange two names is there a moment without `target`. Returns
    whether something was put back.
    """
    if os.path.lexists(target):
        return False
    for aside in _find_beside(target.parent, target.name, _REPLACED):
        with suppress(OSError):
            aside.rename(target)
            sync_folder(target.parent)
            return True
    return False


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed writers of `name` left in `folder`, as far as that can be done.

    With no name, what was left of any.
    """
    for path in _find_beside(folder, name, _PARTIAL):
        with suppress(OSError):
            _remove_dead(path)


def lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder, by whatever name, until it is closed or its process ends.

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
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for the same folder, or file; a file is made.

    Where there are no locks, nobody waits: what each writes is whole, and the last one stays.

    Raises:
        OSError: if it cannot be opened.
    """
    if sys.platform == "win32":  # opens no folders
        yield
        return
    with _opened(path, 0 if path.is_dir() else os.O_CREAT) as descriptor:
        lock(descriptor, wait=True)
        yield


def sync_folder(folder: Path) -> None:
    """Flush to disk which names a folder holds, where the file system can do that."""
    if sys.platform != "win32":
        with suppress(OSError), _opened(folder) as descriptor:
            os.fsync(descriptor)


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:  # Windows flushes only what may be written
        os.fsync(file.fileno())


def _make_locked(path: Path, *, folder: bool) -> int:
    """Create a file or folder that only this user can use; return the descriptor that locks it.

    Windows opens no folders: there the descriptor of one is -1.
    """
    while True:
        if folder:
            path.mkdir(0o700)
            if sys.platform == "win32":
                return -1
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:  # as below
                continue
        else:
            new = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            descriptor = os.open(path, new, 0o600)
        lock(descriptor, wait=True)
        if path.exists():
            return descriptor
        os.close(descriptor)  # another process took it for a leftover, before it was locked


def _find_beside(folder: Path, name: str | None, ending: str) -> list[Path]:
    stem = ".*" if name is None else rf"{re.escape(name[:_LONGEST_STEM])}\.{_RANDOM}"
    pattern = re.compile(rf"\.{stem}{re.escape(ending)}", re.DOTALL)
    try:
        with os.scandir(folder) as entries:  # quick, since a folder may hold very many
            return [folder / entry.name for entry in entries if pattern.fullmatch(entry.name)]
    except (OSError, ValueError):  # no such folder, or a name that none can have
        return []


def _remove_dead(path: Path) -> None:
    """Remove a leftover unless the process that writes it may live."""
    if sys.platform == "win32":  # removes nothing that is open; a folder is not
        if path.is_file() or _is_old(path):
            _remove(path)
        return
    with _opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        free = lock(descriptor)
        if free or (free is None and _is_old(path)):
            _remove(path)


def _is_old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > _DEAD_AFTER_SECONDS


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _swap_in(new: Path, target: Path) -> Path | None:
    """Give `new` the name `target`; return where the folder is that had it, if one had."""
    if not target.exists():
        new.rename(target)
        return None
    if _exchange(new, target):
        return new
    aside = new.with_suffix(_REPLACED)
    try:
        target.rename(aside)
        new.rename(target)
    finally:
        if aside.exists() and not target.exists():  # a fault or Ctrl-C between the two renames
            aside.rename(target)
    return aside


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; tell whether the system can do that."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # only where something is replaced

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc has it from 2.28
    at_working_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    paths = os.fsencode(one), os.fsencode(other)
    done = rename and rename(at_working_folder, paths[0], at_working_folder, paths[1], exchange)
    return done == 0


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mode_of(path: Path) -> int:
    """Return the mode of the file that is replaced, or that of a new file."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
