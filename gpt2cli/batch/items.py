"""One input record → one request, or the reason why there is none."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NoReturn

from gpt2cli.batch.reader import InputReader
from gpt2cli.errors import Gpt2Error, PromptError, UsageError
from gpt2cli.generation import (
    GenerationConfig,
    Overflow,
    PreparedRequest,
    Request,
    prepare,
    seed_of,
)
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import SamplingConfig
from gpt2cli.settings import check_types, settle
from gpt2cli.tokenizer import Tokenizer

_OWN_KEYS: Final = ("prompt", "id")
_REQUEST_KEYS: Final = ("seed", "samples", "allow_special")
_SHORTCUTS: Final = ("greedy",)


@dataclass(frozen=True, slots=True)
class ItemDefaults:
    """What holds for a record that says nothing else."""

    given: Mapping[str, Any]  # the command line's options by field name; None: not given
    generation_config: Mapping[str, Any]
    run_seed: int
    samples: int = 1
    allow_special: bool = False


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One input record: either `prepared` or `error`."""

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
        self, defaults: ItemDefaults, tokenizer: Tokenizer, shape: ModelShape, *, jsonl: bool
    ) -> None:
        self._defaults = defaults
        self._tokenizer = tokenizer
        self._shape = shape
        self._jsonl = jsonl

    def parse(self, record: bytes | PromptError, index: int) -> BatchItem:
        """Return the item of a record; whatever is wrong with it becomes its error."""
        if isinstance(record, PromptError):
            return BatchItem(index, "", error=str(record))
        digest = hashlib.sha256(record).hexdigest()[:16]
        identity = prompt = None
        try:
            fields_given = self._read_fields(record)
            identity = fields_given.get("id")
            prompt = _read_prompt(fields_given)
            request = self._build(prompt, fields_given, index)
            prepared = prepare(request, self._tokenizer, self._shape)
        except Gpt2Error as error:
            return BatchItem(index, digest, identity, prompt, error=str(error).removeprefix("--"))
        return BatchItem(index, digest, identity, prompt, prepared)

    def _read_fields(self, record: bytes) -> Mapping[str, Any]:
        try:
            text = record.decode()
        except UnicodeDecodeError as error:
            raise PromptError(f"the record is not valid UTF-8 (byte {error.start})") from error
        return _read_object(text) if self._jsonl else {"prompt": text}

    def _build(self, prompt: str, record: Mapping[str, Any], index: int) -> Request:
        """Build the request: the record's values, else the command line's, else the model's.

        Raises:
            UsageError: naming the option that is unknown or out of range.
        """
        known = {*_OWN_KEYS, *_REQUEST_KEYS, *_SHORTCUTS}
        known |= {f.name for kind in (SamplingConfig, GenerationConfig) for f in fields(kind)}
        unknown = [name for name in record if name not in known]
        if unknown:
            raise UsageError(
                f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        own = _convert({k: v for k, v in record.items() if v is not None})
        given = {**self._defaults.given, **own}
        generation_config = self._defaults.generation_config
        seed = own.get("seed", seed_of(self._defaults.run_seed, index))
        return Request(
            prompt=prompt,
            sampling=settle(SamplingConfig, given, generation_config).config,
            generation=settle(GenerationConfig, given, generation_config).config,
            seed=seed,
            samples=own.get("samples", self._defaults.samples),
            index=index,
            allow_special=own.get("allow_special", self._defaults.allow_special),
        )


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
        if record is None:
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


def _read_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"the record is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise PromptError('the record is no JSON object; expected {"prompt": …}')
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _read_prompt(record: Mapping[str, Any]) -> str:
    prompt = record.get("prompt")
    if not isinstance(prompt, str):
        raise PromptError('the record has no prompt; expected "prompt" with a text')
    return prompt


def _convert(own: dict[str, Any]) -> dict[str, Any]:
    """Check the types of a record's options and give them those of the configurations.

    Raises:
        UsageError: naming the option and what was found.
    """
    greedy = own.pop("greedy", False)
    if not isinstance(greedy, bool):
        raise UsageError("greedy: expected true or false")
    if greedy:
        own["temperature"] = 0.0
    for kind in (SamplingConfig, GenerationConfig, Request):
        check_types(kind, own)
    if "stop" in own:
        stop = [own["stop"]] if isinstance(own["stop"], str) else own["stop"]
        if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
            raise UsageError("stop: expected a text or a list of texts")
        own["stop"] = tuple(stop)
    if "overflow" in own:
        if own["overflow"] not in list(Overflow):
            raise UsageError(f"overflow: expected one of {', '.join(Overflow)}")
        own["overflow"] = Overflow(own["overflow"])
    return own
