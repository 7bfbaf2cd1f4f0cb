"""Where the result goes: stdout, or a file that gets its name when it is complete."""

import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from export.whole import replacing
from gpt2cli.errors import OutputError, UsageError
from gpt2cli.terminal.notes import Notes, make_safe, wants_colour

_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[22m"  # ends bold alone
_RESET: Final = "\x1b[0m"
# Names of what is open already: what stands in their place must not be replaced, be it a file.
_DESCRIPTOR: Final = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")


class ResultWriter:
    """Writes UTF-8 whatever the locale, each piece at once; as a context manager, to the end.

    On a terminal text is made safe to show and prompts stand in bold; elsewhere it is untouched.
    """

    def __init__(self, file: BinaryIO, *, on_terminal: bool, close: bool = False) -> None:
        """Write to `file`; with `close` it is closed at the end."""
        self._file = file
        self.on_terminal = on_terminal
        self.coloured = on_terminal and wants_colour()
        self._close = close
        self._has_no_reader = _watch_readers(file)

    def write(self, text: str) -> None:
        """Write text of the result.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        self._put(make_safe(text) if self.on_terminal else text)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes that may end or begin within a character; on a terminal as whole lines.

        Raises:
            BrokenPipeError, OutputError: as `write`.
        """
        if self.on_terminal:
            text = data.decode("utf-8", "replace")
            self.write(text if not text or text.endswith("\n") else f"{text}\n")
        else:
            self._put_bytes(data)

    def write_styled(self, text: str, style: str) -> None:
        """Write text for a terminal in a style (SGR); newlines have none, they would fill the line.

        Raises:
            BrokenPipeError, OutputError: as `write`.
        """
        lines = make_safe(text).split("\n")
        self._put("\n".join(f"\x1b[{style}m{li}{_RESET}" if style and li else li for li in lines))

    def write_prompt(self, text: str) -> None:
        """Write the user's own words: in bold where that can be seen."""
        if self.coloured and text:
            self._put(f"{_BOLD}{make_safe(text)}{_PLAIN}")
        else:
            self.write(text)

    def is_abandoned(self) -> bool:
        """Tell whether the reader of a pipe has gone, without writing to it."""
        return self._has_no_reader()

    def keep(self, notes: Notes) -> None:
        """Keep a result that Ctrl-C has cut short."""

    def _put(self, text: str) -> None:
        self._put_bytes(text.encode("utf-8", "replace"))

    def _put_bytes(self, data: bytes) -> None:
        try:
            while data:  # an unbuffered file may take a part only, on a disk that is nearly full
                data = data[self._file.write(data) :]
            self._file.flush()  # somebody waits for each piece: a person, or a program
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write the result: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._close:
            self._file.close()


class FileResultWriter(ResultWriter):
    """Writes to a file that gets its name when everything went well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replacing = replacing(path)
        self._kept = False
        super().__init__(self._replacing.__enter__(), on_terminal=False)

    def keep(self, notes: Notes) -> None:
        """Give the file its name with what there is, if there is anything."""
        if self._file.tell():
            self._finish(None, None, None)
            self._kept = True
            notes.note(f"interrupted; what was made so far is in {self._path}")

    def __exit__(self, *raised: Any) -> None:
        if not self._kept:
            self._finish(*raised)

    def _finish(self, *raised: Any) -> None:
        try:
            self._replacing.__exit__(*raised)
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror}") from error


def open_result(path: Path | None) -> ResultWriter:
    """Return the writer for `--output`; None and `-` are stdout.

    A device or a pipe has no half-written state: it is written directly.

    Raises:
        OutputError: if the file cannot be written.
    """
    if path is None or str(path) == "-":
        if sys.stdout is None:
            raise OutputError("cannot write the result: stdout is closed")
        return ResultWriter(sys.stdout.buffer, on_terminal=sys.stdout.isatty())
    try:
        if not is_direct(path):
            return FileResultWriter(path)
        # Appending: /dev/stdout may be a file that others write too. A FIFO waits for its reader.
        file = path.open("ab", buffering=0)
        return ResultWriter(file, on_terminal=file.isatty(), close=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def is_direct(path: Path) -> bool:
    """Tell whether no file can replace `path`: it is a device, a pipe or stdout."""
    if str(path) == "-":
        return True
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    return not regular or _DESCRIPTOR.fullmatch(str(path)) is not None


def refuse_overwriting(
    output: Path | None, files: Iterable[Path], *, stdin: int | None, option: str = "output"
) -> None:
    """Refuse a result file that is one of the inputs, which it would replace.

    Raises:
        UsageError: if it is.
    """
    if output is None:
        return
    sources: list[Path | int] = [*files] if stdin is None else [*files, stdin]
    for source in sources:
        try:
            same = os.path.samestat(os.stat(source), output.stat())  # noqa: PTH116
            taken = same and not is_direct(output)
        except OSError:  # reading or writing it reports that
            continue
        if taken:
            raise UsageError(f"{output} is the input", option=option)


def _watch_readers(file: BinaryIO) -> Callable[[], bool]:
    """Return the function that tells whether `file` is a pipe whose reader has gone."""
    if sys.platform == "win32":
        return lambda: False
    try:
        mode = os.fstat(file.fileno()).st_mode
    except (OSError, ValueError):  # no real file
        return lambda: False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return lambda: False
    readers = select.poll()
    readers.register(file, 0)  # errors and hang-ups are always reported
    return lambda: bool(readers.poll(0))
