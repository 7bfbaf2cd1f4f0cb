"""Where a chat's messages and commands come from: a prompt line, or the lines of a file or pipe."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from export.small_files import ReadError, decode
from gpt2cli.errors import PromptError
from gpt2cli.terminal.echo import echo_off
from gpt2cli.terminal.notes import Notes, wants_colour
from gpt2cli.terminal.prompt_line import ask, make_safe_processor
from gpt2cli.terminal.safety import make_safe

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History

_FENCE: Final = '"""'
_BLOCK: Final = 1 << 16
_PROMPT: Final = ">>> "
_CONTINUED: Final = "... "


@dataclass(frozen=True, slots=True)
class Entry:
    """What was typed at once: a command only if it is one line that begins with a slash."""

    text: str
    is_command: bool


class ChatInput(Protocol):
    """Gives one entry after the other."""

    on_terminal: bool  # whether a person types them

    @property
    def place(self) -> str:
        """Say before an error where the last entry stands; nothing where a person sees it."""
        ...

    def has_more(self) -> bool:
        """Tell whether there is anything to read; it waits until that is known."""
        ...

    def read(self) -> Entry | None:
        """Return the next entry that is not empty; None at the end.

        Raises:
            PromptError: if it is no text; the next one may be.
            KeyboardInterrupt: at Ctrl-C.
        """
        ...

    def resting(self) -> AbstractContextManager[None]:
        """Let what is typed meanwhile wait unseen for the next `read`."""
        ...


class LineInput:
    """Reads lines from a file descriptor, each as soon as it is there."""

    on_terminal = False

    def __init__(self, descriptor: int) -> None:
        self._lines: Iterator[bytes] = _read_lines(descriptor)
        self._count = 0

    @property
    def place(self) -> str:
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

    def resting(self) -> AbstractContextManager[None]:
        """Do nothing: nobody types."""
        return nullcontext()

    def _next_line(self) -> str | None:
        line = next(self._lines, None)
        if line is None:
            return None
        self._count += 1
        text = line.decode("utf-8", "surrogateescape")
        return text.removeprefix("\ufeff") if self._count == 1 else text  # a byte order mark


class PromptInput:
    """Lets a person type, with editing, history and completion, on the terminal that there is."""

    on_terminal = True
    place = ""

    def __init__(
        self,
        descriptor: int,
        complete: Callable[[str], Iterable[tuple[str, int]]],
        notes: Notes,
        *,
        history_file: Path,
    ) -> None:
        """`complete` gives for the text before the cursor each completion, and where it begins.

        Its beginning is counted from the cursor: 0 or less.
        """
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import ColorDepth, create_output

        self._descriptor = descriptor
        self._notes = notes
        self._session: Any = PromptSession(
            history=_open_history(history_file),
            completer=_make_completer(complete),
            complete_while_typing=False,
            key_bindings=_bind_keys(),
            input_processors=[make_safe_processor()],
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".txt",
            color_depth=None if wants_colour() else ColorDepth.DEPTH_1_BIT,
            output=create_output(always_prefer_tty=True),
        )
        self._greeted = False

    def has_more(self) -> bool:
        """Assume that the person has something to say."""
        return True

    def read(self) -> Entry | None:
        """Return the next entry; Ctrl-C forgets the line, Ctrl-D ends."""
        while True:
            try:
                return read_entry(self._ask)
            except EOFError:
                return None
            except KeyboardInterrupt:
                self._notes.note("Ctrl-D or /exit leaves")

    def resting(self) -> AbstractContextManager[None]:
        """Turn the terminal's echo off meanwhile."""
        return echo_off(self._descriptor)

    def _ask(self, continued: bool) -> str:
        from prompt_toolkit.formatted_text import FormattedText

        hint = "" if self._greeted or continued else "Write a message, or /help"
        self._greeted = True
        return ask(
            self._session,
            _CONTINUED if continued else _PROMPT,
            placeholder=FormattedText([("fg:ansibrightblack", hint)]),
            prompt_continuation=_CONTINUED,
        )


def read_entry(ask: Callable[[bool], str | None]) -> Entry | None:
    '''Return the next entry; `ask` gives a line, None at the end, and is told whether it goes on.

    From a line that begins with """ to one that ends with it all is one message. An entry of
    several lines, as when they are pasted, is a message whatever it begins with.
    '''
    while True:
        text = ask(False)
        if text is None:
            return None
        if text.lstrip().startswith(_FENCE):
            text = _read_fenced(text.lstrip().removeprefix(_FENCE), ask)
            is_command = False
        else:
            is_command = text.startswith("/") and "\n" not in text.rstrip()
        if text.strip():
            return Entry(text.strip(), is_command)


def open_input(
    descriptor: int,
    complete: Callable[[str], Iterable[tuple[str, int]]],
    notes: Notes,
    *,
    history_file: Path,
) -> ChatInput:
    """Return the prompt line where a person types and sees it, else the lines of the file."""
    if not os.isatty(descriptor) or not any(map(_is_terminal, (sys.stdout, sys.stderr))):
        return LineInput(descriptor)
    return PromptInput(descriptor, complete, notes, history_file=history_file)


def _read_fenced(text: str, ask: Callable[[bool], str | None]) -> str:
    while not text.rstrip().endswith(_FENCE):
        line = ask(True)
        if line is None:  # the end closes it too
            return text
        text += f"\n{line}"
    return text.rstrip().removesuffix(_FENCE)


def _read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield lines without their ends; not by sys.stdin, which reads ahead and blocks at exit."""
    held = bytearray()  # a line may be of any length: it is not put together block by block
    while block := _read_block(descriptor):
        held += block
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


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _open_history(path: Path) -> "History":
    """Return the history on disk, or one in memory if that cannot be read and written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class OwnHistory(FileHistory):
        def store_string(self, string: str) -> None:
            """Keep what was typed; a full disk, or what is no UTF-8, must not end the chat."""
            with suppress(OSError, UnicodeError):
                super().store_string(string)

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("r+b"):
            return OwnHistory(path)
    except OSError:
        return InMemoryHistory()


def _bind_keys() -> Any:
    """Let Alt-Enter begin a new line of the same message, and a mouse do nothing."""
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("<vt100-mouse-event>")
    def _(event: Any) -> None:
        """Drop it: prompt_toolkit 3.0 takes a colour, ESC [31m, for one, and fails at it."""

    return bindings


def _make_completer(complete: Callable[[str], Iterable[tuple[str, int]]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class CommandCompleter(Completer):
        def get_completions(
            self, document: "Document", event: "CompleteEvent"
        ) -> "Iterator[Completion]":
            for text, begins in complete(document.text_before_cursor):
                yield Completion(text, start_position=begins, display=make_safe(text))

    return CommandCompleter()
