"""What signals do. Ctrl-C ends what can be ended there, and what was made so far is still shown."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_RETRY_SECONDS: Final = 0.02
_ENDINGS: Final = ("SIGTERM", "SIGHUP")


@contextmanager
def ctrl_c_as_flag() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag that the caller polls; the second one interrupts at once.

    Gives the function that tells whether the flag is set. Where Ctrl-C is ignored, as in a script's
    background job, it stays so.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def take() -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    with _handling_ctrl_c(take):
        yield pressed.is_set


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Let Ctrl-C wait for the end of something short that must not be cut."""
    pressed = threading.Event()
    with _handling_ctrl_c(pressed.set):
        yield
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handling_ctrl_c(take: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or before in (signal.SIG_IGN, None):
        yield  # only the main thread can take signals; None: not Python's to take
        return
    signal.signal(signal.SIGINT, lambda number, frame: take())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def unwind_on_signals() -> None:
    """From here on let SIGTERM and SIGHUP end the program as Ctrl-C does: nothing is half written.

    All three wait while a module is imported. onnxruntime 1.31 and numpy 2.4 do not stand an
    exception in their extension modules' beginning: it becomes an ImportError, or kills the
    process.
    """
    endings = [getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)]
    for number, untouched in (
        (signal.SIGINT, signal.default_int_handler),
        *((number, signal.SIG_DFL) for number in endings),
    ):
        if signal.getsignal(number) is untouched:  # else it is ignored, as by nohup
            signal.signal(number, _unwind_unless_importing)


def _unwind_unless_importing(number: int, frame: FrameType | None) -> None:
    if not _is_importing(frame):
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
        sys.exit(128 + number)
    again = threading.Timer(_RETRY_SECONDS, _send_again, (number,))
    again.daemon = True
    again.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, number)  # also ends a read that waits
    else:
        signal.raise_signal(number)
