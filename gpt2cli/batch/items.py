"""What a record of a batch is: a request, or an error."""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final

from export.small_files import ReadError, decode, find_half_pair, parse_json
from gpt2cli.batch.asked import COMPLETIONS, MAX_TOKENS, Asked, is_asked, read_asked
from gpt2cli.batch.config import ERROR
from gpt2cli.batch.extras import take_extras
from gpt2cli.conversations.config import FormConfig
from gpt2cli.conversations.replies import ChatForm, open_chat
from gpt2cli.errors import Gpt2Error, PromptError, UsageError, shorten
from gpt2cli.generation.requests import PreparedRequest, Request, make_request, prepare
from gpt2cli.model_folder import ModelFolder, ModelShape
from gpt2cli.openai.chatting import USUAL_TOKENS
from gpt2cli.openai.faults import Fault
from gpt2cli.prompt_options import read_options
from gpt2cli.resumable.input import digest
from gpt2cli.sampling.random import seed_of
from gpt2cli.settings import Given, Settings
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
    extras: Mapping[str, Any] = field(default_factory=dict)  # fields that its results have too
    asked: Asked | None = None  # where it has OpenAI's form: in place of all these but `error`

    @property
    def characters(self) -> int:
        """How long its prompts are."""
        return len(self.prompt or "") if self.asked is None else self.asked.characters

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
    model_names: frozenset[str]  # that mean the model that runs
    as_text: bool  # whether completions alone are written
    open_chat: Callable[[], ChatForm]  # is called where a record is of a chat
    extra_fields: str = ERROR

    def parse(self, record: bytes | PromptError, index: int) -> BatchItem:
        """Return the item of a record; whatever is wrong with it becomes its error."""
        if isinstance(record, PromptError):
            return BatchItem(index, digest(str(record).encode()), error=str(record))
        identity = prompt = prepared = error = None
        extras: Mapping[str, Any] = {}
        try:
            whole = self._read_fields(record, index)
            fields = {name: value for name, value in whole.items() if value is not None}
            if is_asked(fields):
                return self._parse_asked(record, fields, index)
            identity = fields.get("id")  # may be anything
            prompt = _read_prompt(fields)
            _refuse_half_pairs(fields)
            extras = take_extras(whole, self.extra_fields)
            prepared = prepare(self._build(prompt, fields, index), self.tokenizer, self.shape)
        except Gpt2Error as failure:
            error = str(failure)
        return BatchItem(index, digest(record), identity, prompt, prepared, error, extras)

    def is_blank(self, record: bytes | PromptError) -> bool:
        """Tell whether it is a blank line between records of JSON Lines: no record at all."""
        return self.jsonl and isinstance(record, bytes) and not record.strip(_BLANK)

    def _parse_asked(self, record: bytes, fields: Mapping[str, Any], index: int) -> BatchItem:
        """Return the item of a record in OpenAI's form."""
        if self.as_text:
            raise UsageError(option="format", expected="jsonl for records with custom_id")
        settings = self.settings.over({"seed": Given(seed_of(self.run_seed, index))})
        if fields.get("url") == COMPLETIONS:
            settings = settings.behind({"max_new_tokens": Given(MAX_TOKENS)})
        asked = read_asked(fields, replace(self, settings=settings), extra_fields=self.extra_fields)
        error = None if asked.fault is None else str(asked.fault)
        return BatchItem(index, digest(record), asked.custom_id, error=error, asked=asked)

    @property
    def chat(self) -> ChatForm:
        """The form in which the model sees what is said to it."""
        return self.open_chat()

    @property
    def usual_tokens(self) -> int:
        """How many a reply has at most where nobody says anything."""
        return USUAL_TOKENS

    def check_model(self, name: str) -> None:
        """Refuse a record that is for another model.

        Raises:
            Fault: if it is.
        """
        if name not in self.model_names:
            known = " or ".join(sorted(self.model_names))
            raise Fault(404, f"model: expected {known}, found {shorten(name)}", param="model")

    def check_size(self, request: Request) -> None:
        """Refuse a request for more than there is room for.

        Raises:
            UsageError: naming the option.
        """
        if request.search.beams > self.most_beams:
            expected = f"at most {self.most_beams}, the room that {{batch_size}} makes"
            raise UsageError(option="beams", expected=expected, found=request.search.beams)

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
        self.check_size(request)
        return request


def chat_of(folder: ModelFolder, note: Callable[[str], object]) -> Callable[[], ChatForm]:
    """Return what gives the form of a model's chats, found when it is first asked for."""
    return cache(partial(open_chat, FormConfig(), folder, note))


def _read_object(text: str) -> dict[str, Any]:
    """Return a record's fields. Texts may have half of a surrogate pair."""
    try:
        value = parse_json(text, half_pairs=True)
    except ReadError as error:
        raise PromptError(f"the record {error}") from error
    if not isinstance(value, dict):
        raise PromptError('the record is not a JSON object; expected {"prompt": …}')
    return value


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
