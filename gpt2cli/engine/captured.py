"""Keeps what ONNX Runtime and its Python layer print off the user's streams."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass

_STREAMS = (1, 2)


@dataclass(slots=True)
class Captured:
    """What was printed; complete once the block is over."""

    text: str = ""


@contextmanager
def captured() -> Iterator[Captured]:
    """Catch what is written to file descriptors 1 and 2, by whatever language, in the block.

    It holds for the whole process: nothing else should be writing meanwhile.
    """
    found = Captured()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what waits in a buffer is the user's
    with tempfile.TemporaryFile() as file:
        kept = [(number, _duplicate(number)) for number in _STREAMS]
        with open(file.fileno(), "w", encoding="utf-8", closefd=False) as printed:
            try:
                for number in _STREAMS:
                    os.dup2(file.fileno(), number)
                # Not stderr too: it has no buffer to wait in, and a progress line's thread has it.
                with redirect_stdout(printed):
                    yield found
            finally:
                for number, saved in kept:
                    _restore(number, saved)
        file.seek(0)
        found.text = file.read().decode("utf-8", "replace")


def _duplicate(number: int) -> int | None:
    """Return a copy of a file descriptor; None if it is closed."""
    try:
        return os.dup(number)
    except OSError:
        return None


def _restore(number: int, saved: int | None) -> None:
    if saved is None:
        os.close(number)
        return
    os.dup2(saved, number)
    os.close(saved)
