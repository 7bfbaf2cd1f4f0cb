"""What is typed in a chat, entry by entry; this module reads the lines of a file or pipe."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Final

from export.small_files import ReadError, decode
from gpt2cli.errors import PromptError
from gpt2cli.text_input import MOST_BYTES

_FENCE: Final = '"""'
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """What was typed at once: a command only if it is one line that begins with a slash."""

    text: str
    is_command: bool


class ChatInput:
    """Yields one entry after the other."""

    on_terminal = False  # whether a person types them

    @property
    def position(self) -> str:
        """Words before an error that name the line of the last entry; empty at a terminal."""
        return ""

    def has_more(self) -> bool:
        """Tell whether there is anything to read; it waits until that is known."""
        return True

    def read(self) -> Entry | None:
        """Return the next entry that is not empty; None at the end.

        Raises:
            PromptError: if it is no text; the next one may be.
            KeyboardInterrupt: at Ctrl-C.
        """
        raise NotImplementedError

    def resting(self) -> AbstractContextManager[None]:
        """Keep what is typed meanwhile unseen, for the next `read`."""
        return nullcontext()


class LineInput(ChatInput):
    """Reads lines from a file descriptor, each as soon as it is there."""

    def __init__(self, descriptor: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._lines: Iterator[bytes] = _read_lines(descriptor, most_bytes)
        self._count = 0

    @property
    def position(self) -> str:
        """Say which line was the last."""
        return f"line {self._count}: "

    def has_more(self) -> bool:
        """Read the first line, and tell whether there is one."""
        first = next(self._lines, None)
        self._lines = chain([] if first is None else [first], self._lines)
        return first is not None

    def read(self) -> Entry | None:
        """Return the next entry; one that is no text is read to its end all the same."""
        entry = read_entry(lambda continued: self._next_line())
        try:
            if entry is not None:
                decode(entry.text.encode("utf-8", "surrogateescape"))
        except ReadError as error:
            raise PromptError(f"it {error}") from error
        return entry

    def _next_line(self) -> str | None:
        line = next(self._lines, None)
        if line is None:
            return None
        self._count += 1
        # What is not UTF-8 is refused with its whole entry: its later lines are no messages.
        text = line.decode("utf-8", "surrogateescape")
        return text.removeprefix("\ufeff") if self._count == 1 else text  # a byte order mark


def read_entry(ask: Callable[[bool], str | None], *, longest: int = MOST_BYTES) -> Entry | None:
    '''Return the next entry; `ask` gives a line, None at the end, and is told whether it goes on.

    From a line that begins with """ to one that ends with it all is one message. An entry of
    several lines, as when they are pasted, is a message whatever it begins with.

    Raises:
        PromptError: if a message between quotes has more than `longest` characters.
    '''
    while True:
        text = ask(False)
        if text is None:
            return None
        if text.lstrip().startswith(_FENCE):
            text = _read_fenced(text.lstrip().removeprefix(_FENCE), ask, longest)
            is_command = False
        else:
            is_command = text.startswith("/") and "\n" not in text.rstrip()
        if text.strip():
            return Entry(text.strip(), is_command)


def _read_fenced(text: str, ask: Callable[[bool], str | None], longest: int) -> str:
    while not text.rstrip().endswith(_FENCE):
        line = ask(True)
        if line is None:  # the end closes it too
            return text
        text += f"\n{line}"
        if len(text) > longest:
            raise PromptError(f"the message has more than {longest} characters")
    return text.rstrip().removesuffix(_FENCE)


def _read_lines(descriptor: int, most_bytes: int) -> Iterator[bytes]:
    """Yield lines without their ends; not by sys.stdin, which reads ahead and blocks at exit."""
    held = bytearray()  # a line may be long: it is not put together block by block
    while block := _read_block(descriptor):
        held += block
        if len(held) > most_bytes:  # of a device such as /dev/zero it would never end
            raise PromptError(f"stdin has a line of more than {most_bytes} bytes")
        if b"\n" in block:
            *lines, held = held.split(b"\n")
            for line in lines:
                yield bytes(line.removesuffix(b"\r"))
    if held:
        yield bytes(held)


def _read_block(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _BLOCK)
    except OSError as error:
        raise PromptError(f"cannot read stdin: {error.strerror}") from error
