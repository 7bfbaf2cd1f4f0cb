"""Where the result goes: stdout, or a file that takes its name when it is whole."""

import os
import stat
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from gpt2cli.errors import OutputError
from gpt2cli.terminal.notes import wants_colour
from gpt2cli.terminal.safety import make_safe

_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[22m"


class ResultWriter:
    """Writes UTF-8 whatever the locale, each piece at once; as a context manager, to the end.

    On a terminal text is made safe to show and prompts stand in bold; elsewhere it is untouched.
    """

    def __init__(self, file: BinaryIO, *, on_terminal: bool) -> None:
        self._file = file
        self._on_terminal = on_terminal
        self._coloured = on_terminal and wants_colour()

    def write(self, text: str) -> None:
        """Write text of the result.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        shown = make_safe(text) if self._on_terminal else text
        self._put(shown)

    def write_prompt(self, text: str) -> None:
        """Write the user's own words: in bold where that can be seen."""
        if self._coloured and text:
            self._put(f"{_BOLD}{make_safe(text)}{_PLAIN}")
        else:
            self.write(text)

    def _put(self, text: str) -> None:
        try:
            self._file.write(text.encode("utf-8", "surrogateescape"))
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write the result: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class FileResultWriter(ResultWriter):
    """Writes to a temporary file beside `path` and renames it when all went well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        self._temporary = Path(name)
        self._open_file = os.fdopen(handle, "wb")
        super().__init__(self._open_file, on_terminal=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                os.fsync(self._open_file.fileno())
            self._open_file.close()
            if kind is None:
                self._temporary.chmod(_mode_of(self._path))
                self._temporary.replace(self._path)
        except OSError as failure:
            raise OutputError(f"cannot write {self._path}: {failure.strerror}") from failure
        finally:
            self._temporary.unlink(missing_ok=True)


def open_result(path: Path | None) -> ResultWriter:
    """Return the writer for `--output`; None is stdout.

    Raises:
        OutputError: if the file cannot be written.
    """
    if path is None:
        return ResultWriter(sys.stdout.buffer, on_terminal=sys.stdout.isatty())
    if path.exists() and not path.is_file():  # a device or a pipe has no half-written state
        try:
            return ResultWriter(path.open("wb", buffering=0), on_terminal=False)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
    return FileResultWriter(path)


def _mode_of(path: Path) -> int:
    """Return the mode of the file that is replaced, or that of a new file."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
