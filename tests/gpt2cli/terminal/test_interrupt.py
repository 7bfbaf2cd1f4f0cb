"""Claims about Ctrl-C; the signal is raised in this process, with handlers set back after it."""

import importlib
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpt2cli.terminal.interrupt import ctrl_c_as_flag, ctrl_c_held_back, let_imports_finish

_HANGS_AFTER = 10.0


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Begin each test as a program in the foreground does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Press Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_the_first_press_sets_the_flag_and_interrupts_nothing() -> None:
    """The caller ends when it is ready to."""
    with ctrl_c_as_flag() as pressed:
        before = pressed()
        press()
        after = pressed()

    assert (before, after) == (False, True)


def test_the_second_press_interrupts_at_once() -> None:
    """A caller that is stuck is not waited for."""
    with pytest.raises(KeyboardInterrupt), ctrl_c_as_flag() as pressed:
        press()
        assert pressed()
        press()


@pytest.mark.parametrize("presses", [0, 1])
def test_the_handler_is_the_one_before_again(presses: int) -> None:
    """Also after an exception."""
    with pytest.raises(ValueError, match="end"), ctrl_c_as_flag():
        for _ in range(presses):
            press()
        raise ValueError("end")

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_it_is_ignored_it_stays_so() -> None:
    """As in a script's background job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    let_imports_finish()
    with ctrl_c_as_flag() as pressed, ctrl_c_held_back():
        press()

    assert not pressed()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_just_has_a_flag_that_is_never_set() -> None:
    """Only the main thread can take signals."""
    flags: list[bool] = []

    def work() -> None:
        with ctrl_c_as_flag() as pressed, ctrl_c_held_back():
            flags.append(pressed())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert flags == [False]


def test_held_back_it_comes_at_the_end() -> None:
    """However often it was pressed."""
    done = False
    with pytest.raises(KeyboardInterrupt), ctrl_c_held_back():
        press()
        press()
        done = True

    assert done


def test_what_was_held_back_and_not_pressed_just_ends() -> None:
    """The handler is the one before again."""
    with ctrl_c_held_back():
        pass

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_import_is_finished_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes after it, and ends a call that would wait for long."""
    (tmp_path / "pressed_while_imported.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    let_imports_finish()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("pressed_while_imported")
        time.sleep(_HANGS_AFTER)

    assert sys.modules.pop("pressed_while_imported").whole


def test_elsewhere_it_interrupts_at_once() -> None:
    """As it does by default."""
    let_imports_finish()
    with pytest.raises(KeyboardInterrupt):
        press()
