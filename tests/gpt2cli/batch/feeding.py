"""Feeds input to a reader: all at once, or as a test writes it."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Final

from gpt2cli.errors import PromptError
from gpt2cli.resumable.input import InputReader

_ENDS_AFTER: Final = 1.0
HANGS_AFTER: Final = 60.0  # seconds; far above what anything here takes


class Feed:
    """A pipe that a test writes to; `reader` is the descriptor at its other end."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        self._open = True

    def write(self, data: bytes) -> None:
        """Write; what does not fit into the pipe waits for its reader."""
        while data:
            data = data[os.write(self._writer, data) :]

    def end(self) -> None:
        if self._open:
            self._open = False
            os.close(self._writer)


@contextlib.contextmanager
def feeding(data: bytes = b"") -> Iterator[Feed]:
    """Give a pipe that holds `data`, some kB at most; it is closed at the end.

    Not while a reader's thread may still read it: the number would become the next pipe's.
    """
    threads_before = set(threading.enumerate())
    feed = Feed()
    feed.write(data)
    try:
        yield feed
    finally:
        feed.end()
        readers = set(threading.enumerate()) - threads_before
        for thread in readers:
            thread.join(timeout=_ENDS_AFTER)
        if not any(thread.is_alive() for thread in readers):  # else it waits for a full queue
            os.close(feed.reader)


@contextlib.contextmanager
def fed(data: bytes) -> Iterator[int]:
    with feeding(data) as feed:
        feed.end()
        yield feed.reader


def read_all(reader: InputReader) -> list[bytes | PromptError]:
    records = []
    deadline = time.monotonic() + HANGS_AFTER
    while not reader.ended:
        record = reader.take(wait=True)
        if record is not None:
            records.append(record)
        assert time.monotonic() < deadline
    return records
