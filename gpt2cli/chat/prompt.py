"""The prompt line, by prompt_toolkit 3, whose prompt handles no signal but SIGINT."""

import asyncio
import signal
import sys
from bisect import bisect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    PathCompleter,
    WordCompleter,
)
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.shortcuts import CompleteStyle

from gpt2cli.chat.commands import COMMANDS
from gpt2cli.chat.input import ChatInput, Entry, read_entry
from gpt2cli.chat.settable import all_options
from gpt2cli.errors import OutputError
from gpt2cli.terminal.interrupt import ENDINGS, signals_held_back, signals_taken
from gpt2cli.terminal.notes import Notes, make_safe, wants_colour

if sys.platform != "win32":
    import termios

    _LOCAL_MODES = 3  # its index in what tcgetattr gives

_PROMPT: Final = ">>> "
_CONTINUED: Final = "... "


class PromptInput(ChatInput):
    """Reads what a person types at the terminal, with editing, history and completion."""

    on_terminal = True

    def __init__(self, descriptor: int, notes: Notes, *, history_file: Path) -> None:
        self._descriptor = descriptor
        self._notes = notes
        # prompt_toolkit 3.0 drops whatever is raised within its flush, a signal's exception too.
        with signals_held_back():
            self._session = _make_session(history_file)
        self._greeted = False

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
        hint = "" if self._greeted or continued else "Write a message, or /help"
        self._greeted = True
        return ask(
            self._session,
            _CONTINUED if continued else _PROMPT,
            placeholder=FormattedText([("fg:ansibrightblack", hint)]),
            prompt_continuation=_CONTINUED,
        )


def ask(session: PromptSession[str], message: str, **how: Any) -> str:
    """Return the line; `how` is what the session's prompt takes.

    The session must have been given its output: without one prompt_toolkit 3.0 runs another
    application than the session's on a dumb terminal (TERM=dumb), and signals would not end that.
    Whatever ends it, the terminal is as it was before.

    Raises:
        EOFError, KeyboardInterrupt: at Ctrl-D and Ctrl-C.
        OutputError: if the terminal has gone.
    """
    app = session.app
    ended: list[int] = []

    def begin() -> None:
        session.search_buffer.reset()  # else a search that SIGINT has cut off still takes the keys
        app.layout.focus(session.default_buffer)
        asyncio.get_running_loop().set_exception_handler(fail)
        if ended:
            end()

    def fail(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep the exception that is raised while a key is read or the line is drawn."""
        if "exception" in context:
            end(context["exception"])

    def end(error: BaseException | None = None) -> None:
        if app.is_running and not app.is_done:
            app.exit(exception=error or EOFError())

    def tell(number: int) -> None:
        ended.append(number)
        if app.loop is not None:
            app.loop.call_soon_threadsafe(end)

    try:
        with signals_held_back(ENDINGS, tell=tell):
            return session.prompt(message, pre_run=begin, **how)
    except OSError as error:
        raise OutputError(f"cannot use the terminal: {error.strerror}") from error


def _make_session(history_file: Path) -> PromptSession[str]:
    return PromptSession(
        history=_open_history(history_file),
        completer=CommandCompleter(),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        key_bindings=_bind_keys(),
        input_processors=[_SafeProcessor()],
        enable_open_in_editor=True,
        enable_suspend=True,  # by Ctrl-Z, which the terminal passes on as a key
        tempfile_suffix=".txt",  # for the editor that Ctrl-X Ctrl-E opens
        color_depth=None if wants_colour() else ColorDepth.DEPTH_1_BIT,
        output=create_output(always_prefer_tty=True),  # which `ask` wants
    )


class CommandCompleter(Completer):
    """Completes the names of commands, and what some of them take; Tab lists several."""

    def __init__(self) -> None:
        self._names = WordCompleter([*COMMANDS], sentence=True)
        file = PathCompleter(expanduser=True)
        self._arguments = {
            "/help": WordCompleter([name[1:] for name in COMMANDS], sentence=True),
            "/set": WordCompleter([option.name for option in all_options()], sentence=True),
            "/read": file,
            "/save": file,
            "/load": file,
        }

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions of a line; the name of a file is made safe to show."""
        name, space, argument = document.text_before_cursor.partition(" ")
        completer = self._arguments.get(name) if space else self._names
        if name and completer is not None:
            part = Document(argument if space else name)
            for found in completer.get_completions(part, event):
                shown = make_safe(found.display_text)
                yield Completion(found.text, found.start_position, display=shown)


class _SafeProcessor(Processor):
    """Makes a line safe to show while it is typed, or pasted; it is read as it is."""

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        text = fragment_list_to_text(given.fragments)
        if make_safe(text) == text:
            return Transformation(given.fragments)
        characters = explode_text_fragments(given.fragments)
        shown = [(style, make_safe(character)) for style, character, *_ in characters]
        begins = list(accumulate((len(piece) for _, piece in shown), initial=0))
        return Transformation(
            [*shown],
            source_to_display=lambda index: begins[min(index, len(shown))],
            display_to_source=lambda index: bisect(begins, index) - 1,
        )


class _OwnHistory(FileHistory):
    def store_string(self, string: str) -> None:
        """Save what was typed; a full disk, or text that is not UTF-8, must not end the chat."""
        with suppress(OSError, UnicodeError):
            super().store_string(string)


def _open_history(path: Path) -> History:
    """Return the history on disk, or one in memory if that cannot be read and written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("r+b"):
            return _OwnHistory(path)
    except OSError:
        return InMemoryHistory()


def _bind_keys() -> KeyBindings:
    """Let Alt-Enter begin a new line of the same message, and a mouse do nothing."""
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("<vt100-mouse-event>")
    def _(event: Any) -> None:
        """Drop it: prompt_toolkit 3.0 takes a colour, ESC [31m, for one, and fails at it."""

    return bindings


@contextmanager
def echo_off(descriptor: int) -> Iterator[None]:
    """Keep the terminal from showing what is typed meanwhile; it can be read afterwards.

    While Ctrl-Z has stopped the program the terminal is as it was before.
    """
    if sys.platform == "win32" or not _has_echo(descriptor):
        yield
        return

    def stop(number: int) -> None:
        _set_echo(descriptor, on=True)
        handler = signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # it returns when the program goes on
        signal.signal(number, handler)
        _set_echo(descriptor, on=False)

    with signals_taken(stop, [signal.SIGTSTP]):
        try:
            _set_echo(descriptor, on=False)
            yield
        finally:
            _set_echo(descriptor, on=True)


def _has_echo(descriptor: int) -> bool:
    try:
        return bool(termios.tcgetattr(descriptor)[_LOCAL_MODES] & termios.ECHO)
    except termios.error:  # it is no terminal, or has gone
        return False


def _set_echo(descriptor: int, *, on: bool) -> None:
    with suppress(termios.error):
        modes = termios.tcgetattr(descriptor)
        if on:
            modes[_LOCAL_MODES] |= termios.ECHO
        else:
            modes[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
