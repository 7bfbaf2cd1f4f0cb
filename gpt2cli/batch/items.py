"""One input record → one request, or the reason why there is none."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from export.small_files import ReadError, decode
from gpt2cli.batch.entries import digest
from gpt2cli.batch.fields import (
    read_id,
    read_object,
    read_options,
    read_prompt,
    refuse_half_pairs,
)
from gpt2cli.batch.reader import InputReader
from gpt2cli.errors import Gpt2Error, PromptError, UsageError
from gpt2cli.generation import PreparedRequest, Request, make_request, prepare, seed_of
from gpt2cli.model_folder import ModelShape
from gpt2cli.settings import Settings
from gpt2cli.tokenizer import Tokenizer

_BLANK: Final = codecs.BOM_UTF8 + b" \t\r\n"


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


class ItemParser:
    """Parses records of one kind: a line of text is a prompt, a line of JSON an object."""

    def __init__(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        shape: ModelShape,
        *,
        run_seed: int,
        jsonl: bool,
        max_slots: int,
    ) -> None:
        """Parse with `settings` for what a record does not say; `max_slots`: of beams."""
        self._settings = settings
        self._run_seed = run_seed
        self._tokenizer = tokenizer
        self._shape = shape
        self._jsonl = jsonl
        self._max_slots = max_slots

    def parse(self, record: bytes | PromptError, index: int) -> BatchItem:
        """Return the item of a record; whatever is wrong with it becomes its error."""
        if isinstance(record, PromptError):
            return BatchItem(index, digest(str(record).encode()), error=str(record))
        identity = prompt = prepared = error = None
        try:
            fields = self._read_fields(record, index)
            identity = read_id(fields)
            prompt = read_prompt(fields)
            refuse_half_pairs(fields)
            prepared = prepare(self._build(prompt, fields, index), self._tokenizer, self._shape)
        except Gpt2Error as failure:
            error = str(failure)
        return BatchItem(index, digest(record), identity, prompt, prepared, error)

    def is_blank(self, record: bytes | PromptError) -> bool:
        """Tell whether it is a blank line between records of JSON Lines: no record at all."""
        return self._jsonl and isinstance(record, bytes) and not record.strip(_BLANK)

    def _read_fields(self, record: bytes, index: int) -> Mapping[str, Any]:
        try:
            text = decode(record)
        except ReadError as error:
            raise PromptError(f"the record {error}") from error
        if self._jsonl:
            return read_object(text)
        # A byte order mark may begin a file: it is no part of the first prompt alone.
        return {"prompt": text if index == 0 else record.decode()}

    def _build(self, prompt: str, record: Mapping[str, Any], index: int) -> Request:
        """Build the request: the record's values, else the command line's, else the model's.

        Raises:
            UsageError: naming the option that is unknown or out of range.
        """
        own = read_options(record)
        seed = own["seed"].value if "seed" in own else seed_of(self._run_seed, index)
        request = make_request(self._settings.over(own), prompt, seed=seed, index=index)
        if request.search.beams > self._max_slots:
            expected = f"at most {self._max_slots}, what {{batch_size}} gives the device room for"
            raise UsageError(option="beams", expected=expected, found=request.search.beams)
        return request


class ItemSource:
    """The items of an input in order, as they come."""

    def __init__(self, reader: InputReader, parser: ItemParser) -> None:
        self._reader = reader
        self._parser = parser
        self._next_index = 0
        self._given_back: BatchItem | None = None

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
        if self._given_back is not None:
            item, self._given_back = self._given_back, None
            return item
        record = self._reader.take(wait=wait)
        # One blank line at a time: between them the caller hears Ctrl-C.
        if record is None or self._parser.is_blank(record):
            return None
        item = self._parser.parse(record, self._next_index)
        self._next_index += 1
        return item

    def take_next(self) -> BatchItem | None:
        """Return the next item, however long it takes; None at the end."""
        item = None
        while item is None and not self.ended:
            item = self.take(wait=True)
        return item

    def give_back(self, item: BatchItem) -> None:
        """Give the item again the next time."""
        self._given_back = item
