"""Claims about what ends a prompt line besides keys; the signals are raised in this process."""

import errno
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput, Output

from gpt2cli.chat.prompt import PromptInput, ask
from gpt2cli.errors import OutputError
from gpt2cli.terminal.interrupt import ENDINGS, unwind_on_signals
from gpt2cli.terminal.notes import Notes

if sys.platform == "win32":
    pytest.skip("Windows has no signals that end a prompt", allow_module_level=True)

_SEARCH = "\x12"
_CTRL_C = "\x03"

pytestmark = pytest.mark.usefixtures("default_handlers")


class Leaving(DummyOutput):
    """A terminal that is there until it has gone."""

    gone = False

    def flush(self) -> None:
        if self.gone:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    """Return what is typed on, at a terminal that can do least."""
    monkeypatch.setenv("TERM", "dumb")
    with create_pipe_input() as pipe, create_app_session(input=pipe):
        yield pipe


def begin(output: Output | None = None) -> PromptSession[str]:
    """Return a session with an output of its own, as `ask` wants it; nobody sees it."""
    return PromptSession(output=output or DummyOutput())


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def ask_and_meanwhile(session: PromptSession[str], step: Callable[[], None]) -> str:
    """Return the line that is asked for while this happens, after a moment."""
    timer = threading.Timer(0.1, step)
    timer.start()
    try:
        return ask(session, "> ")
    finally:
        timer.join()


@pytest.mark.parametrize(
    ("number", "typed"),
    [
        *((number, "") for number in ENDINGS),
        *((ENDINGS[0], typed) for typed in ("half a line", f"{_SEARCH}half", "\x1b[200~a paste")),
    ],
)
def test_a_signal_that_ends_the_program_ends_the_line(
    keyboard: PipeInput, typed: str, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever the cursor is, with the signal's code and without a word."""
    unwind_on_signals()
    keyboard.send_text(typed)
    with pytest.raises(SystemExit) as caught:
        ask_and_meanwhile(begin(), send(number))
    assert caught.value.code == 128 + number
    assert capfd.readouterr() == ("", "")


def test_a_signal_ends_the_program_also_while_the_prompt_is_made(
    keyboard: PipeInput, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prompt_toolkit 3.0 drops what is raised where it asks whether the terminal blocks."""
    unwind_on_signals()

    def get_blocking(descriptor: int) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    monkeypatch.setattr(os, "get_blocking", get_blocking)
    person, terminal = os.openpty()
    with os.fdopen(person, "rb"), os.fdopen(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        with pytest.raises(SystemExit):
            PromptInput(screen.fileno(), Notes(), history_file=tmp_path / "history")


def test_several_at_once_are_one(keyboard: PipeInput, capfd: pytest.CaptureFixture[str]) -> None:
    unwind_on_signals()

    def send_all() -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    with pytest.raises(SystemExit) as caught:
        ask_and_meanwhile(begin(), send_all)
    assert caught.value.code in (143, 129)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_that_is_sent_during_a_search_leaves_a_line_that_works(
    keyboard: PipeInput,
) -> None:
    """The keys go to the next line, not to the search that was cut off."""
    unwind_on_signals()
    session = begin()
    keyboard.send_text(f"{_SEARCH}abc")
    with pytest.raises(KeyboardInterrupt):
        ask_and_meanwhile(session, send(signal.SIGINT))
    keyboard.send_text(_CTRL_C)
    with pytest.raises(KeyboardInterrupt):
        ask(session, "> ")
    keyboard.send_text("/exit\r")
    assert ask(session, "> ") == "/exit"


def test_a_terminal_that_has_gone_is_a_known_failure(keyboard: PipeInput) -> None:
    terminal = Leaving()

    def leave() -> None:
        terminal.gone = True
        keyboard.send_text("abc")

    with pytest.raises(OutputError, match="Input/output"):
        ask_and_meanwhile(begin(terminal), leave)


def test_after_it_signals_do_what_they_did_before(keyboard: PipeInput) -> None:
    numbers = (signal.SIGINT, *ENDINGS)
    unwind_on_signals()
    before = [signal.getsignal(number) for number in numbers]
    keyboard.send_text("a\r")
    ask(begin(), "> ")
    assert [signal.getsignal(number) for number in numbers] == before
