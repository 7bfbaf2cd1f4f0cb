"""Waits for an answer from the network, and no longer than that."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Answer = TypeVar("_Answer")


def answer_within(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """Return what `ask` returns; one that takes longer is left behind.

    On a thread: a silent name server knows no time-out of ours, and Ctrl-C is not heard meanwhile.

    Raises:
        TimeoutError: if there is no answer by then.
        Exception: what `ask` raises.
    """
    future: Future[_Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(timeout=seconds)
    except TimeoutError as error:
        if future.done():
            raise
        raise TimeoutError(f"no answer within {seconds:.0f} s") from error
