"""Reads input records in a thread of its own, a bounded number ahead of who takes them."""

import os
import queue
import select
import threading
from typing import Final

from gpt2cli.errors import PromptError

_BLOCK: Final = 1 << 16
_AHEAD: Final = 64  # records
# Bytes of a record. The longest context has some 5 kB of text, and tokenizers 0.23 takes 0.5 s and
# 170 MB for each MB.
LONGEST_RECORD: Final = 1 << 20
_MOMENT: Final = 0.1  # seconds that `take` waits


class InputReader:
    """Gives the records of a file descriptor as they come, without their terminators.

    A record that is longer than any prompt can be is given as a PromptError in its place.
    """

    def __init__(self, descriptor: int, *, terminator: bytes = b"\n") -> None:
        """Begin to read; `terminator` is one byte. The last record may lack it."""
        self._descriptor = descriptor
        self._terminator = terminator
        self._queue: queue.Queue[tuple[bytes | PromptError, int] | None] = queue.Queue(_AHEAD)
        self._failure: OSError | None = None
        self.ended = False
        self.bytes_taken = 0  # of the records that were taken, with their terminators
        # A daemon: a read that blocks for ever must not keep the program.
        threading.Thread(target=self._read, name="input", daemon=True).start()

    def take(self, *, wait: bool) -> bytes | PromptError | None:
        """Return the next record; None if there is none now, with `wait` after a moment.

        Raises:
            PromptError: if the input cannot be read.
        """
        if self.ended:
            return None
        try:
            taken = self._queue.get(block=wait, timeout=_MOMENT if wait else None)
        except queue.Empty:
            return None
        if taken is None:
            self.ended = True
            if self._failure is not None:
                raise PromptError(f"cannot read the input: {self._failure.strerror}")
            return None
        record, size = taken
        self.bytes_taken += size + 1
        return record

    def _read(self) -> None:
        try:
            self._split()
        except OSError as error:
            self._failure = error
        self._queue.put(None)

    def _split(self) -> None:
        pieces: list[bytes] = []  # of the record that has begun, as far as it is not too long
        size = 0
        while block := self._read_block():
            *complete, rest = block.split(self._terminator)
            for piece in complete:
                self._put([*pieces, piece], size + len(piece))
                pieces, size = [], 0
            size += len(rest)
            if size <= LONGEST_RECORD:
                pieces.append(rest)
        if size:
            self._put(pieces, size)

    def _read_block(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _BLOCK)
            except BlockingIOError:  # another program that has it open may have made it so
                select.select([self._descriptor], [], [])

    def _put(self, pieces: list[bytes], size: int) -> None:
        if size > LONGEST_RECORD:
            error = PromptError(f"the record has {size} bytes, the most is {LONGEST_RECORD}")
            self._queue.put((error, size))
            return
        record = b"".join(pieces)
        if self._terminator == b"\n":
            record = record.removesuffix(b"\r")
        self._queue.put((record, size))
