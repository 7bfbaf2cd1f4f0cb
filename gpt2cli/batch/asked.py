"""Records in the form of OpenAI's batches, and their answers.

A record is {"custom_id", "method", "url", "body"}; `vllm run-batch` takes the same. Its answer is
one line, whatever it asks for, and depends on the record alone: ids come from its bytes and its
number, and nothing tells the time, so that a run that is resumed writes the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from export.small_files import find_half_pair
from gpt2cli.batch.config import ERROR, KEEP
from gpt2cli.errors import Gpt2Error, shorten
from gpt2cli.loading import LoadedModel
from gpt2cli.openai.answers import Answer
from gpt2cli.openai.asking import Ask, read_ask
from gpt2cli.openai.chatting import ChatAsk, ChatHost, read_chat_ask
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.pieces import Piece
from gpt2cli.openai.replies import ChatAnswer
from gpt2cli.record_lines import format_record
from gpt2cli.resumable.input import digest

# Of a completion where nothing was said; OpenAI's default, not that of the table.
MAX_TOKENS: Final = 16
COMPLETIONS: Final = "/v1/completions"
_CHAT: Final = "/v1/chat/completions"
_METHOD: Final = "POST"
_FIELDS: Final = ("custom_id", "method", "url", "body")
_OF_ANSWERS: Final = ("id", "response", "error")
_CREATED: Final = 0  # no time: see above
_DONE: Final = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """What such a record says: either an `ask`, or the `fault` that answers it."""

    custom_id: Any
    ask: Ask | None = None
    fault: Fault | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)  # fields that its answer has too

    @property
    def characters(self) -> int:
        """How long its prompts are together."""
        prompts = () if self.ask is None else self.ask.prompts
        return sum(len(prepared.request.prompt) for prepared in prompts)


def is_asked(fields: Mapping[str, Any]) -> bool:
    """Tell whether a record has this form."""
    return "custom_id" in fields and "prompt" not in fields


def read_asked(fields: Mapping[str, Any], host: ChatHost, *, extra_fields: str) -> Asked:
    """Read such a record; whatever is wrong with it becomes its fault."""
    custom_id = fields["custom_id"]
    extras: Mapping[str, Any] = {}
    try:
        _check(fields)
        extras = _take_extras(fields, extra_fields)
        read = read_chat_ask if fields["url"] == _CHAT else read_ask
        ask = read(_read_body(fields), host)
        _check_form(ask)
    except (Fault, Gpt2Error) as error:
        return Asked(custom_id, fault=explain(error), extras=extras)
    return Asked(custom_id, ask, extras=extras)


def _check(fields: Mapping[str, Any]) -> None:
    half = find_half_pair(fields)
    if half is not None:
        raise Fault(400, f"half of a surrogate pair, {half}, is not a character")
    if not isinstance(fields["custom_id"], str):
        raise _refuse("custom_id", "a text", fields["custom_id"])
    if fields.get("method", _METHOD) != _METHOD:
        raise _refuse("method", _METHOD, fields["method"])
    if fields.get("url") not in (COMPLETIONS, _CHAT):
        raise _refuse("url", f"{COMPLETIONS} or {_CHAT}", fields.get("url"))


def _take_extras(fields: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return what `extra_fields` says of the fields that this form does not have."""
    extras = {name: value for name, value in fields.items() if name not in _FIELDS}
    for name in extras:
        if what == ERROR:
            raise Fault(400, f"unknown field {shorten(name)}", param=shorten(name))
        if what == KEEP and name in _OF_ANSWERS:
            raise Fault(400, f"{name}: an answer has one of its own", param=name)
    return extras if what == KEEP else {}


def _read_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    body = fields.get("body")
    if not isinstance(body, dict):
        raise _refuse("body", 'an object {"prompt": …}', body)
    return {name: value for name, value in body.items() if value is not None}


def _check_form(ask: Ask) -> None:
    if ask.form.stream:
        raise Fault(400, "stream: expected false in a batch, found true", param="stream")
    if ask.form.scored is not None:
        fault = "echo: expected no logprobs together with it in a batch; `gpt2 serve` takes both"
        raise Fault(400, fault, param="echo")


def _refuse(name: str, expected: str, found: Any) -> Fault:
    return Fault(400, f"{name}: expected {expected}, found {shorten(repr(found))}", param=name)


def _begin(ask: Ask, model: LoadedModel, name: str) -> Answer:
    if isinstance(ask, ChatAsk):
        return ChatAnswer(ask, model, name=name, created=_CREATED)
    return Answer(ask, model, name=name, created=_CREATED)


def answer(
    asked: Asked, pieces: Iterable[Piece], model: LoadedModel, *, index: int, record: str
) -> tuple[str, str | None]:
    """Return the answer as a line of JSON, and the error if it is one.

    `pieces`: all that was made for it; `index` and `record`, a digest, tell records apart.
    """
    name = digest(f"{index} {record}".encode())
    fault = asked.fault
    body: Mapping[str, Any] = {}
    if asked.ask is not None:
        whole = _begin(asked.ask, model, name)
        try:
            whole.add((), pieces)
            body = whole.finish()
        except Fault as error:
            fault = error
    if fault is not None:
        body = fault.as_json
    response = {
        "status_code": _DONE if fault is None else fault.status,
        "request_id": f"req_{name}",
        "body": body,
    }
    told = {"id": f"batch_req_{name}", "custom_id": asked.custom_id, "response": response}
    return format_record({**told, "error": None, **asked.extras}), None if fault is None else str(
        fault
    )
