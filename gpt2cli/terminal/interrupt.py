"""What Ctrl-C does: it ends what can be ended there, and what was made so far is still shown."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_RETRY_SECONDS: Final = 0.02


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


def let_imports_finish() -> None:
    """From here on let Ctrl-C wait while a module is imported.

    onnxruntime 1.31 and numpy 2.4 do not stand a KeyboardInterrupt in their extension modules'
    beginning: it becomes an ImportError, or kills the process.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_unless_importing)


def _interrupt_unless_importing(number: int, frame: FrameType | None) -> None:
    if not _is_importing(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_RETRY_SECONDS, _send_ctrl_c)
    again.daemon = True
    again.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_ctrl_c() -> None:
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGINT)  # also ends a read that waits
    else:
        signal.raise_signal(signal.SIGINT)
