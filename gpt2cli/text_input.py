"""Reads the texts that a command takes: one from stdin and as an argument, or some from files."""

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from export.small_files import ReadError, decode
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.option_kinds import from_bytes
from gpt2cli.options import spell_flag

_STDIN: Final = 0
_DASH: Final = "-"  # stdin, where a text or a file is meant
_BLOCK: Final = 1 << 16
MOST_BYTES: Final = 1 << 29  # of a text: a device such as /dev/zero never ends


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text, and the name of its file if it has one."""

    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Stdin:
    """Stdin, and whether what it holds comes before a text that is an argument."""

    descriptor: int | None  # None: the program was started without one
    wanted: bool | None = None  # None: if it is known to hold something
    note: Callable[[str], None] = lambda text: None

    def is_offered(self) -> bool:
        """Tell whether it is read where there is no argument."""
        if self.descriptor is None or self.wanted is not None:
            return bool(self.wanted)
        return not os.isatty(self.descriptor)

    def holds(self) -> bool:
        """Tell whether it is to be read beside an argument: that must not wait unless asked for."""
        if self.descriptor is None or self.wanted is not None:
            return bool(self.wanted)
        kind = os.fstat(self.descriptor).st_mode
        if stat.S_ISREG(kind):
            return True
        if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
            return False  # a terminal, or a device such as /dev/null
        if _is_ready(self.descriptor):
            return True
        waits = f"{spell_flag('stdin')} waits for it"
        self.note(f"stdin is an open pipe that holds nothing yet, and is left alone; {waits}")
        return False


def find_stdin() -> int | None:
    """Return stdin's file descriptor; None if the program was started without one."""
    return None if sys.stdin is None else _STDIN


def read_texts(
    what: str,
    argument: str | None,
    files: Sequence[Path],
    *,
    stdin: Stdin,
    example: str,
    most_bytes: int = MOST_BYTES,
) -> list[NamedText]:
    """Return the texts; from a file or stdin one trailing newline is dropped.

    `what`: prompt or text; `example`: a use of the command. What `stdin` holds comes before an
    argument, with a newline between them unless one is there.

    Raises:
        UsageError: if there are an argument and files or nothing, or the argument is not UTF-8.
        PromptError: if a file or stdin cannot be read, is not UTF-8, or has more bytes than that.
    """
    if argument is not None and files:
        raise UsageError(option="file", expected=f"no {what} argument together with it")
    if stdin.wanted and files:
        raise UsageError(option="stdin", expected="no {file} together with it")
    if stdin.wanted is False and _DASH in (argument, *map(str, files)):
        raise UsageError(option="stdin", expected="on with -, which is stdin", found="off")
    if files:
        return [
            NamedText(str(file), _drop_newline(_read(file, stdin.descriptor, most_bytes)))
            for file in files
        ]
    if argument is None and not stdin.is_offered():
        raise UsageError(f"expected a {what}, for example: {example}")
    if argument is None or argument == _DASH:
        return [NamedText(None, _drop_newline(_read_stdin(stdin.descriptor, most_bytes)))]
    text = from_bytes(argument, subject=f"the {what} argument")
    before = _read_stdin(stdin.descriptor, most_bytes) if stdin.holds() else ""
    return [NamedText(None, _join(before, text))]


def _join(before: str, text: str) -> str:
    """Return a text after another one, where both are there."""
    if not text or not _drop_newline(before):
        return text or _drop_newline(before)
    apart = before.endswith("\n") or text.startswith("\n")
    return f"{before}{text}" if apart else f"{before}\n{text}"


def _drop_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _is_ready(descriptor: int) -> bool:
    """Tell whether a pipe can be read without waiting: it holds something, or has ended."""
    if not hasattr(select, "poll"):  # as on Windows, where nothing else tells
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _read(file: Path, stdin: int | None, most_bytes: int) -> str:
    if str(file) == _DASH:
        return _read_stdin(stdin, most_bytes)
    return _read_from(file, str(file), most_bytes, file=file)


def _read_stdin(stdin: int | None, most_bytes: int) -> str:
    if stdin is None:
        raise PromptError("cannot read stdin: it is closed")
    return _read_from(stdin, "stdin", most_bytes)


def _read_from(source: Path | int, name: str, most_bytes: int, *, file: Path | None = None) -> str:
    """Read without sys.stdin: a thread that is blocked in it can abort Python at exit."""
    blocks, size = [], 0
    try:
        with open(source, "rb", buffering=0, closefd=file is not None) as opened:
            while block := os.read(opened.fileno(), _BLOCK):
                blocks.append(block)
                size += len(block)
                if size > most_bytes:
                    raise PromptError(f"{name} has more than {most_bytes} bytes; cut it in parts")
    except OSError as error:
        option = None if file is None else "file"
        raise PromptError(f"cannot read {name}: {error.strerror}", option=option) from error
    try:
        return decode(b"".join(blocks), file=file)
    except ReadError as error:
        raise PromptError(f"{name} {error}") from error
