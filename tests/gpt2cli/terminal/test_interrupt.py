"""Claims about Ctrl-C; the signal is raised in this process, with handlers set back after it."""

import importlib
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gpt2cli.__main__ import main
from gpt2cli.terminal.interrupt import ENDINGS, ctrl_c_as_flag, signals_held_back, unwind_on_signals

_HANGS_AFTER = 10.0

pytestmark = pytest.mark.usefixtures("default_handlers")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_press_sets_the_flag_and_the_second_interrupts_at_once() -> None:
    """The caller ends when it is ready to; one that is stuck is not waited for."""
    with pytest.raises(KeyboardInterrupt), ctrl_c_as_flag() as pressed:
        assert not pressed()
        press()
        assert pressed()
        press()


@pytest.mark.parametrize("presses", [0, 1])
def test_the_handler_is_the_one_before_again(presses: int) -> None:
    with pytest.raises(ValueError, match="end"), ctrl_c_as_flag():
        for _ in range(presses):
            press()
        raise ValueError("end")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_it_is_ignored_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    unwind_on_signals()
    with ctrl_c_as_flag() as pressed, signals_held_back():
        press()
    assert not pressed()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_just_has_a_flag_that_is_never_set() -> None:
    """Only the main thread can take signals."""
    flags: list[bool] = []

    def work() -> None:
        with ctrl_c_as_flag() as pressed, signals_held_back():
            flags.append(pressed())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert flags == [False]


def test_held_back_it_comes_once_at_the_end_if_at_all() -> None:
    with signals_held_back():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    done = False
    with pytest.raises(KeyboardInterrupt), signals_held_back():
        press()
        press()
        done = True
    assert done


def test_an_import_is_finished_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes after it, and ends a call that would wait for long."""
    (tmp_path / "pressed_while_imported.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    unwind_on_signals()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("pressed_while_imported")
        time.sleep(_HANGS_AFTER)
    assert sys.modules.pop("pressed_while_imported").whole


@pytest.mark.parametrize("number", ENDINGS)
def test_other_ends_unwind_too(number: signal.Signals) -> None:
    """With the exit code that shells tell; one that is ignored stays so."""
    unwind_on_signals()
    with pytest.raises(SystemExit) as caught:
        signal.raise_signal(number)
    assert caught.value.code == 128 + number
    signal.signal(number, signal.SIG_IGN)
    unwind_on_signals()
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("first", [signal.SIGINT, *ENDINGS])
def test_what_cleans_up_is_not_cut_by_another_one(first: signal.Signals) -> None:
    """The first one's exception is the only one, and its exit code stays."""
    unwind_on_signals()
    cleaned = False
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        try:
            signal.raise_signal(first)
        finally:
            for number in (signal.SIGINT, *ENDINGS):
                signal.raise_signal(number)
            cleaned = True
    assert cleaned


def test_what_hangs_while_it_cleans_up_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that comes a second later."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    unwind_on_signals()
    with pytest.raises(KeyboardInterrupt):
        press()
    now = 1.1
    with pytest.raises(KeyboardInterrupt):
        press()


def test_one_that_comes_while_the_program_leaves_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a slow machine a second may have passed by then since the first."""
    left: Iterator[Callable[[], None]] = iter([press, lambda: None])
    monkeypatch.setattr("gpt2cli.__main__._run", lambda: 130)
    monkeypatch.setattr("gpt2cli.terminal.interrupt.exit_on_signals", lambda code: next(left)())
    monkeypatch.setattr("gpt2cli.terminal.interrupt.leave_threads", lambda code: None)
    unwind_on_signals()
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


def test_one_whose_exception_python_drops_comes_again() -> None:
    """As in a finalizer, of which Python would only write that it ignored the exception."""

    class Finalized:
        def __del__(self) -> None:
            press()

    unwind_on_signals()
    with pytest.raises(KeyboardInterrupt):
        Finalized()
        time.sleep(_HANGS_AFTER)


def test_held_back_they_come_also_after_an_exception() -> None:
    """And the caller is told at once, so that it can hurry."""
    unwind_on_signals()
    told: list[int] = []
    with pytest.raises(SystemExit) as caught, signals_held_back(tell=told.append):
        signal.raise_signal(signal.SIGTERM)
        raise ValueError(told)
    assert caught.value.code == 143
    assert isinstance(caught.value.__context__, ValueError)
    assert told == [signal.SIGTERM]
