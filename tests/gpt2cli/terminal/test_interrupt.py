"""Claims about Ctrl-C; the signal is raised in this process, with handlers set back after it."""

import importlib
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpt2cli.terminal.interrupt import ctrl_c_as_flag, ctrl_c_held_back, unwind_on_signals

_HANGS_AFTER = 10.0
_ALL = ("SIGINT", "SIGTERM", "SIGHUP")


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Begin each test as a program in the foreground does."""
    numbers = [getattr(signal, name) for name in _ALL if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
    unwind_on_signals()
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
    unwind_on_signals()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("pressed_while_imported")
        time.sleep(_HANGS_AFTER)

    assert sys.modules.pop("pressed_while_imported").whole


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_other_ends_unwind_too_and_the_second_one_is_not_taken(name: str) -> None:
    """With the exit code that shells tell; one that is ignored stays so."""
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip(f"there is no {name}")
    before = signal.signal(number, signal.SIG_DFL)
    try:
        unwind_on_signals()
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(number)
        assert caught.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL

        signal.signal(number, signal.SIG_IGN)
        unwind_on_signals()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_elsewhere_it_interrupts_at_once() -> None:
    """As it does by default."""
    unwind_on_signals()
    with pytest.raises(KeyboardInterrupt):
        press()
