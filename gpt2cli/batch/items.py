"""Reads input records as they come: each becomes a request, or an error."""

import codecs
import hashlib
import os
import queue
import select
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from export.small_files import ReadError, decode, find_half_pair, parse_json
from gpt2cli.batch.shards import WHOLE, Shard
from gpt2cli.config import OF_A_PROMPT
from gpt2cli.declarations import options_of
from gpt2cli.errors import Gpt2Error, PromptError, UsageError, shorten
from gpt2cli.generation.requests import PreparedRequest, Request, make_request, prepare
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling.random import seed_of
from gpt2cli.settings import Given, Settings
from gpt2cli.tokenizer import Tokenizer

_BLANK: Final = codecs.BOM_UTF8 + b" \t\r\n"
_OPTIONS: Final = {option.field: option for group in OF_A_PROMPT for option in options_of(group)}
_KNOWN: Final = _OPTIONS.keys() | {"prompt", "id"}
_BLOCK: Final = 1 << 16
_AHEAD: Final = 64  # records that wait: reading neither holds up the model nor fills the memory
# Bytes of a record. The longest context has some 5 kB of text, and tokenizers 0.23 takes 0.5 s and
# 170 MB for each MB.
LONGEST_RECORD: Final = 1 << 20
_MOMENT: Final = 0.1  # seconds that `take` waits


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


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One input record: either `prepared`, or an `error`, which is its one result."""

    index: int
    digest: str  # of the record's bytes
    identity: Any = None  # its "id"
    prompt: str | None = None
    prepared: PreparedRequest | None = None
    error: str | None = None

    @property
    def results(self) -> int:
        """How many output records it has."""
        return 1 if self.prepared is None else self.prepared.request.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemParser:
    """Parses records of one kind: a line of text is a prompt, a line of JSON an object."""

    settings: Settings  # for options that a record does not have
    tokenizer: Tokenizer
    shape: ModelShape
    run_seed: int
    jsonl: bool
    most_beams: int

    def parse(self, record: bytes | PromptError, index: int) -> BatchItem:
        """Return the item of a record; whatever is wrong with it becomes its error."""
        if isinstance(record, PromptError):
            return BatchItem(index, digest(str(record).encode()), error=str(record))
        identity = prompt = prepared = error = None
        try:
            fields = self._read_fields(record, index)
            identity = fields.get("id")  # may be anything
            prompt = _read_prompt(fields)
            _refuse_half_pairs(fields)
            prepared = prepare(self._build(prompt, fields, index), self.tokenizer, self.shape)
        except Gpt2Error as failure:
            error = str(failure)
        return BatchItem(index, digest(record), identity, prompt, prepared, error)

    def is_blank(self, record: bytes | PromptError) -> bool:
        """Tell whether it is a blank line between records of JSON Lines: no record at all."""
        return self.jsonl and isinstance(record, bytes) and not record.strip(_BLANK)

    def _read_fields(self, record: bytes, index: int) -> Mapping[str, Any]:
        try:
            text = decode(record)
        except ReadError as error:
            raise PromptError(f"the record {error}") from error
        if self.jsonl:
            return _read_object(text)
        # A byte order mark may begin a file: it is no part of the first prompt alone.
        return {"prompt": text if index == 0 else record.decode()}

    def _build(self, prompt: str, record: Mapping[str, Any], index: int) -> Request:
        """Build the request: the record's values, else the command line's, else the model's."""
        own = read_options(record)
        # A seed of its own, so that no text depends on the records around it.
        seed = own["seed"].value if "seed" in own else seed_of(self.run_seed, index)
        request = make_request(self.settings.over(own), prompt, seed=seed, index=index)
        if request.search.beams > self.most_beams:
            expected = f"at most {self.most_beams}, the room that {{batch_size}} makes"
            raise UsageError(option="beams", expected=expected, found=request.search.beams)
        return request


class ItemSource:
    """The items of an input in order, as they come."""

    def __init__(self, reader: InputReader, parser: ItemParser, shard: Shard = WHOLE) -> None:
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

    def take(self, *, wait: bool) -> BatchItem | None:
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

    def take_next(self) -> BatchItem | None:
        """Return the next item, however long it takes; None at the end."""
        item = None
        while item is None and not self.ended:
            item = self.take(wait=True)
        return item

    def give_back(self) -> None:
        """Give the last item again the next time."""
        self._given_back = self._last


def digest(data: bytes) -> str:
    """Return the digest by which a record or a line of the output is recognised."""
    return hashlib.sha256(data).hexdigest()[:16]


def read_options(record: Mapping[str, Any]) -> dict[str, Given]:
    """Return a record's options by field.

    Raises:
        UsageError: naming the option that is unknown, of a wrong type, or out of range.
    """
    unknown = [name for name in record if name not in _KNOWN]
    if unknown:
        names = shorten(", ".join(unknown))
        raise UsageError(f"unknown option {names}; known are {', '.join(sorted(_KNOWN))}")
    own = {name: _OPTIONS[name].read(value) for name, value in record.items() if name in _OPTIONS}
    if own.get("choice") == ():  # which elsewhere means that there is no constraint
        raise UsageError(option="choice", expected="at least one text", found="an empty list")
    return {name: Given(value) for name, value in own.items()}


def _read_object(text: str) -> dict[str, Any]:
    """Return a record's fields, except null ones. Texts may have half of a surrogate pair."""
    try:
        value = parse_json(text, half_pairs=True)
    except ReadError as error:
        raise PromptError(f"the record {error}") from error
    if not isinstance(value, dict):
        raise PromptError('the record is not a JSON object; expected {"prompt": …}')
    return {name: given for name, given in value.items() if given is not None}


def _read_prompt(record: Mapping[str, Any]) -> str:
    prompt = record.get("prompt")
    if not isinstance(prompt, str):
        raise PromptError('the record has no prompt; expected "prompt" with a text')
    return prompt


def _refuse_half_pairs(record: Mapping[str, Any]) -> None:
    """Refuse half of a surrogate pair, which UTF-8 cannot write, in any text of a record."""
    half = find_half_pair(record)
    if half is not None:
        raise PromptError(
            f"the record has half of a surrogate pair, {half}, which is not a character"
        )
