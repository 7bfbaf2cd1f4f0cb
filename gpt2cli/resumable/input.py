"""Records as they come in, and results as they go out."""

import hashlib
import os
import queue
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from gpt2cli.errors import PromptError
from gpt2cli.resumable.shards import WHOLE, Shard

_BLOCK: Final = 1 << 16
_AHEAD: Final = 64  # records that wait: reading neither holds up the model nor fills the memory
# Bytes of a record. The longest context has some 5 kB of text, and tokenizers 0.23 takes 0.5 s and
# 170 MB for each MB.
LONGEST_RECORD: Final = 1 << 20
_MOMENT: Final = 0.1  # seconds that `take` waits


class Item(Protocol):
    """One input record, as the journal knows it."""

    @property
    def index(self) -> int:
        """Its place among the records, from 0."""
        ...

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        ...

    @property
    def results(self) -> int:
        """How many results it has."""
        ...


ItemT = TypeVar("ItemT", bound=Item)
ItemT_co = TypeVar("ItemT_co", bound=Item, covariant=True)


class RecordParser(Protocol[ItemT_co]):
    """Makes items of records."""

    def parse(self, record: bytes | PromptError, index: int) -> ItemT_co:
        """Return the item of a record; whatever is wrong with it becomes its error."""
        ...

    def is_blank(self, record: bytes | PromptError) -> bool:
        """Tell whether it is no record at all."""
        ...


class InputReader:
    """Gives the records of a file descriptor as they come, without their terminators.

    A record that is longer than any prompt can be is replaced by a PromptError.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        terminator: bytes = b"\n",
        wants: Callable[[bytes | PromptError], bool] = lambda record: True,
    ) -> None:
        """Begin to read; `terminator` is one byte. The last record may lack it.

        `wants` is asked for each record in order, on a thread: others are skipped.
        """
        self._descriptor = descriptor
        self._terminator = terminator
        self._wants = wants
        self._skipped = 0  # bytes, since the last record that was given
        self._queue: queue.Queue[tuple[bytes | PromptError, int] | None] = queue.Queue(_AHEAD)
        self._failure: OSError | None = None
        self.ended = False
        self.bytes_taken = 0  # of the records up to the last one taken, with their terminators
        # A daemon, so that a read that blocks forever does not keep the program from ending.
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
        self.bytes_taken += size
        return record

    def _read(self) -> None:
        try:
            self._split()
        except OSError as error:
            self._failure = error  # for `take`: what a thread raises is lost
        self._queue.put(None)

    def _split(self) -> None:
        pieces: list[bytes] = []  # the record that has begun, unless it is too long already
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
            except BlockingIOError:  # made non-blocking by another program that has it open
                select.select([self._descriptor], [], [])

    def _put(self, pieces: list[bytes], size: int) -> None:
        record = self._make_record(pieces, size)
        self._skipped += size + 1
        if self._wants(record):
            self._queue.put((record, self._skipped))
            self._skipped = 0

    def _make_record(self, pieces: list[bytes], size: int) -> bytes | PromptError:
        if size > LONGEST_RECORD:
            return PromptError(f"the record has {size} bytes, the limit is {LONGEST_RECORD}")
        record = b"".join(pieces)
        return record.removesuffix(b"\r") if self._terminator == b"\n" else record


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record as it stands in the input."""

    index: int  # in the whole input, from 0
    data: bytes | PromptError


class ItemSource(Generic[ItemT]):
    """The items of an input in order, as they come."""

    def __init__(
        self, reader: InputReader, parser: RecordParser[ItemT], shard: Shard = WHOLE
    ) -> None:
        """`shard`: which part of the whole input the reader gives."""
        self._reader = reader
        self._parser = parser
        self._shard = shard
        self._taken = 0
        self._last: InputRecord | None = None
        self._given_back: InputRecord | None = None

    @property
    def ended(self) -> bool:
        """Whether no item will come any more."""
        return self._given_back is None and self._reader.ended

    @property
    def bytes_taken(self) -> int:
        """How much of the input has been read as records."""
        return self._reader.bytes_taken

    def take(self, *, wait: bool) -> ItemT | None:
        """Return the next item; None if there is none now, with `wait` after a short wait."""
        taken = self.take_record(wait=wait)
        return None if taken is None else self._parser.parse(taken.data, taken.index)

    def take_record(self, *, wait: bool) -> InputRecord | None:
        """Return the next record, for another process to parse; None as `take`."""
        if self._given_back is not None:
            taken, self._given_back = self._given_back, None
            return taken
        data = self._reader.take(wait=wait)
        # One blank line at a time: between them the caller hears Ctrl-C.
        if data is None or self._parser.is_blank(data):
            return None
        self._last = InputRecord(self._shard.index_of(self._taken), data)
        self._taken += 1
        return self._last

    def take_next(self) -> ItemT | None:
        """Return the next item, however long it takes; None at the end."""
        item = None
        while item is None and not self.ended:
            item = self.take(wait=True)
        return item

    def give_back(self) -> None:
        """Give the last item again the next time."""
        self._given_back = self._last


@dataclass(frozen=True, slots=True)
class Line:
    """A result that is ready to be written, wherever it was made."""

    index: int
    sample: int
    digest: str  # the digest of the input record
    text: str  # with its newline
    error: str | None
    tokens: int = 0
    cuts: tuple[str, ...] = ()  # what to tell of a prompt that the model did not see whole
    hints: tuple[str, ...] = ()  # at a prompt that could be better


def digest(data: bytes) -> str:
    """Return the digest by which a record or a line of the output is recognised."""
    return hashlib.sha256(data).hexdigest()[:16]
