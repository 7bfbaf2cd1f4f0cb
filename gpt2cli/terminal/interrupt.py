"""Handles signals: Ctrl-C ends what is running, and what was made so far is still shown."""

import atexit
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

ENDINGS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_ALL: Final = (signal.SIGINT, *ENDINGS)
_RETRY_SECONDS: Final = 0.02
_UNWINDING_SECONDS: Final = 1.0


@contextmanager
def signals_taken(take: Callable[[int], None], numbers: Sequence[int]) -> Iterator[None]:
    """Call `take` with these signals' numbers in the block. Ignored ones stay ignored.

    Only the main thread can take signals: elsewhere nothing changes.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    kept = {n: h for n, h in before.items() if h not in (signal.SIG_IGN, None)}
    try:
        for number in kept:
            signal.signal(number, lambda number, frame: take(number))
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def ctrl_c_as_flag(tell: Callable[[], object] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag that the caller polls; the second one interrupts at once.

    Gives the function that tells whether the flag is set. `tell` is called when it is, where the
    caller waits for somebody else. Where Ctrl-C is ignored, as in a script's
    background job, it stays so.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def take(number: int) -> None:
        pressed.set()
        signal.signal(number, before)
        tell()

    with signals_taken(take, [signal.SIGINT]):
        yield pressed.is_set


@contextmanager
def signals_held_back(
    numbers: Sequence[int] = _ALL, *, tell: Callable[[int], object] = lambda number: None
) -> Iterator[Sequence[int]]:
    """Let signals wait for the end of something that must not be cut; `tell` may hurry it up.

    Gives those that have come.
    """
    came: list[int] = []

    def take(number: int) -> None:
        came.append(number)
        tell(number)

    try:
        with signals_taken(take, numbers):
            yield came
    finally:
        if came:
            signal.raise_signal(came[0])


def unwind_on_signals() -> None:
    """From here on let SIGTERM and SIGHUP end the program as Ctrl-C does: nothing is half written.

    All three wait while a module is imported. An exception while the extension modules of
    onnxruntime 1.31 and numpy 2.4 start becomes an ImportError, or kills the process.
    """
    unwinder = _Unwinder()
    for number in _ALL:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, unwinder.unwind)  # else it is ignored, as by nohup
    sys.unraisablehook = unwinder.raise_again


def exit_on_signals(code: int) -> None:
    """From here on, when everything is written, a signal ends the program at once with this code.

    Once no thread is waited for any more it changes nothing: Python would take our handlers away.
    """
    for number in _ALL:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os._exit(code))
            atexit.register(signal.signal, number, signal.SIG_IGN)


def leave_threads(code: int) -> None:
    """End the program now if Python would wait for a thread: a draft's, say, which still loads.

    When everything is written nobody needs what it makes.
    """
    waited_for = [thread for thread in threading.enumerate() if not thread.daemon]
    if len(waited_for) > 1:  # one is the main thread
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed or None
                stream.flush()
        os._exit(code)


class _Unwinder:
    """Raises an exception for a signal, one for all that come while it unwinds.

    Another one would cut what cleans up after the first. A program that hangs there hears the next.
    """

    def __init__(self) -> None:
        self._raised_at = -math.inf
        self._number: int = signal.SIGINT
        self._tell_unraisable = sys.unraisablehook

    def unwind(self, number: int, frame: FrameType | None) -> None:
        """Raise, unless that was done just now."""
        if time.monotonic() - self._raised_at < _UNWINDING_SECONDS:
            return
        if _is_importing(frame):
            _send_again(number)
            return
        self._raised_at, self._number = time.monotonic(), number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    def raise_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Send a signal again whose exception Python had to drop, as in a finalizer."""
        if isinstance(unraisable.exc_value, KeyboardInterrupt | SystemExit):
            self._raised_at = -math.inf
            _send_again(self._number)
        else:
            self._tell_unraisable(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    again = threading.Timer(_RETRY_SECONDS, _send, (number,))
    again.daemon = True
    again.start()


def _send(number: int) -> None:
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, number)  # also ends a read that waits
    else:
        signal.raise_signal(number)
