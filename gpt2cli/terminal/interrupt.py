"""Ctrl-C as a wish to end: what was made so far is still shown."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c_as_flag() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag that the caller polls; the second one interrupts at once.

    Gives the function that tells whether the flag is set.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # only the main thread can take signals
        return

    def take(number: int, frame: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, take)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
