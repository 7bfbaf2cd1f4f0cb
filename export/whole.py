"""Writes files and folders that take their names only when they are whole.

Until then they lie beside their place as `.NAME.XXXXXXXX.partial`, locked while their process
lives. What a killed one left is known by that, and goes when the same name is written again. What
takes a name has been flushed to disk before, and the folder that holds the name is flushed after:
a power cut too leaves the old or the new, whole.
"""

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from export.locks import lock

_PARTIAL: Final = ".partial"
_REPLACED: Final = ".replaced"
_RANDOM: Final = "[a-z0-9_]{8}"  # as tempfile writes it
# With dots, the random part and the ending at most 255 bytes, however the name is encoded.
_LONGEST_STEM: Final = 59
_DEAD_AFTER_SECONDS: Final = 3600.0  # where no lock tells


class _Partial:
    """What will take the name `target`; as a context manager it goes if it did not."""

    def __init__(self, target: Path, *, folder: bool) -> None:
        remove_leftovers(target.parent, target.name)
        self._target = target
        self._descriptor, self.path = _make_locked(target, folder=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        with suppress(OSError):  # it has taken its name; a folder's may be that of the old one now
            _remove(self.path)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


class PartialFile(_Partial):
    """A file, written by `file`, that takes the place of another one or of none.

    A link is followed, and a file that is replaced gives its mode to the new one.
    """

    def __init__(self, target: Path) -> None:
        """Create it beside `target`.

        Raises:
            OSError: if it cannot be created, or `target` is protected.
        """
        target = Path(os.path.realpath(target))
        if os.access(target, os.F_OK) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        super().__init__(target, folder=False)
        assert self._descriptor is not None
        self.file = os.fdopen(self._descriptor, "wb")

    def take_name(self, *, flush_name: bool = True) -> None:
        """Give it the name, whole; without `flush_name` a power cut may bring back the old one.

        Raises:
            OSError: if it cannot have it; what stood there stays.
        """
        self.path.chmod(_mode_of(self._target))
        self.file.flush()
        os.fsync(self.file.fileno())
        if sys.platform == "win32":  # renames nothing that is open
            self.file.close()
        self.path.replace(self._target)
        if flush_name:
            sync_folder(self._target.parent)

    def _close(self) -> None:
        with suppress(OSError):  # what failed before fails again
            self.file.close()


class PartialFolder(_Partial):
    """A folder of files at `path` that takes the place of another one or of none."""

    def __init__(self, target: Path) -> None:
        """Create it beside `target`.

        Raises:
            OSError: if it cannot be created.
        """
        put_back(target)
        if os.path.lexists(target):
            for aside in _find_beside(target.parent, target.name, _REPLACED):
                _remove(aside)
        super().__init__(target, folder=True)

    def take_name(self) -> None:
        """Give it the name, whole; what stood there goes.

        Raises:
            OSError: if it cannot have it; what stood there stays.
        """
        for path in self.path.iterdir():
            _sync_file(path)
        self.path.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        sync_folder(self.path)
        replaced = _swap_in(self.path, self._target)
        sync_folder(self._target.parent)
        if replaced is not None:
            _remove(replaced)


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


def sync_folder(folder: Path) -> None:
    """Flush to disk which names a folder holds, where the file system can do that."""
    if sys.platform != "win32":
        with suppress(OSError), _opened(folder) as descriptor:
            os.fsync(descriptor)


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:  # Windows flushes only what may be written
        os.fsync(file.fileno())


def _make_locked(target: Path, *, folder: bool) -> tuple[int | None, Path]:
    """Create the partial file or folder of `target`; return it open and locked, and its path."""
    prefix = f".{target.name[:_LONGEST_STEM]}."
    while True:
        if folder:
            path = Path(tempfile.mkdtemp(_PARTIAL, prefix, target.parent))
            if sys.platform == "win32":  # opens no folders
                return None, path
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:  # as below
                continue
        else:
            descriptor, name = tempfile.mkstemp(_PARTIAL, prefix, target.parent)
            path = Path(name)
        if lock(descriptor) is not False and path.exists():
            return descriptor, path
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
    descriptor = os.open(path, os.O_RDONLY | flags)
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
