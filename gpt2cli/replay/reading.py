"""Reads records: each becomes a request, or a reason why it cannot be compared."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from export.small_files import ReadError, parse_json
from gpt2cli.config import AUTO, LARGEST_SEED, PRECISIONS, ModelConfig
from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.requests import Request
from gpt2cli.recorded import Context, end_early, lift_time, read_context, read_request

_HALF: Final = "fp16"
# What stands before each piece of a server's stream, and in place of the last.
_EVENT: Final = "data: "
_DONE: Final = "[DONE]"
_AN_ERROR: Final = "it is the record of an error"
# What a record must have, and of which type.
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "index": int,
    "prompt": str,
    "completion": str,
    "finish_reason": str,
    "prompt_tokens": int,
    "completion_tokens": int,
    "sample": int,
    "seed": int,
    "options": dict,
    "model": str,
    "revision": (str, type(None)),
    "precision": str,
    "device": str,
    "fingerprint": str,
    "versions": dict,
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record: either with its `request`, or with the `refusal` that says why it has none."""

    line: int  # of the file, from 1
    place: int  # among all records, from 0
    fields: Mapping[str, Any]
    request: Request | None = None  # its index is the place
    context: Context | None = None
    refusal: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the text was cut short by its user."""
        return self.fields["finish_reason"] == FinishReason.INTERRUPTED

    @property
    def adapters(self) -> Sequence[str]:
        """The names of the adapters that were merged into the model."""
        return tuple(adapter["name"] for adapter in self.fields.get("adapters", ()))

    def choose_model(self, instead: str | None) -> ModelConfig:
        """Return the model of the record; `instead` says where it is now."""
        fields, revision = self.fields, self.fields["revision"]
        # The CPU takes fp16 from a model folder alone, which has no other precision.
        half = fields["precision"] == _HALF and fields["device"] == "cpu"
        named: dict[str, Any] = {"model": instead or fields["model"]}
        if instead is None:
            named["adapter"] = self.adapters
            if revision is not None:
                is_step = (
                    revision.isascii() and revision.isdigit() and len(revision) < len("0" * 40)
                )
                named |= {"step": int(revision)} if is_step else {"revision": revision}
        return ModelConfig(
            **named, precision=AUTO if half else fields["precision"], device=fields["device"]
        )


def read_records(text: str, *, index: int | None) -> list[Recorded]:
    """Return the records of a file in their order; `index` chooses those that have it.

    Raises:
        PromptError: if there is none.
    """
    found = [record for record in _read_all(text) if index in (None, record.fields.get("index"))]
    if not found:
        chosen = "" if index is None else f" with the index {index}"
        raise PromptError(f"there is no record{chosen}")
    return found


def _read_all(text: str) -> Iterator[Recorded]:
    places = itertools.count()
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.removeprefix(_EVENT).strip()
        for found in _read_line(content) if content not in ("", _DONE) else ():
            place = next(places)
            if isinstance(found, str):
                yield Recorded(number, place, {}, refusal=found)
            else:
                yield _read_one(found, number, place)


def _read_line(line: str) -> list[dict[str, Any] | str]:
    """Return a line's records, those of an answer in OpenAI's form too, or why it has none."""
    try:
        fields = parse_json(line)
    except ReadError as error:
        return [f"the line {error}"]
    if not isinstance(fields, dict):
        return ["the line is not a JSON object"]
    response = fields.get("response")  # around the answer in a line of a batch
    answer = response.get("body") if isinstance(response, dict) else fields
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return [_AN_ERROR]
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list):
        return [fields]
    records = [choice.get("gpt2") for choice in choices if isinstance(choice, dict)]
    return [record for record in records if isinstance(record, dict)]


def _read_one(fields: dict[str, Any], number: int, place: int) -> Recorded:
    try:
        _check(fields)
        request, context = read_request(fields, index=place), read_context(fields)
        request = lift_time(request)
        if fields["finish_reason"] in (FinishReason.INTERRUPTED, FinishReason.TIME):
            request = end_early(request, fields["completion_tokens"])
    except Gpt2Error as error:
        return Recorded(number, place, fields, refusal=str(error))
    return Recorded(number, place, fields, request, context)


def _fits(value: Any, kind: type | tuple[type, ...]) -> bool:
    if kind is int:
        return type(value) is int and 0 <= value <= LARGEST_SEED
    return isinstance(value, kind)


def _check(fields: Mapping[str, Any]) -> None:
    """Raise a PromptError that names what is missing."""
    if fields.get("finish_reason") == FinishReason.ERROR:
        raise PromptError(_AN_ERROR)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        names = ", ".join(missing)
        raise PromptError(
            f"it has no {names}: not a record of generate, batch or chat, or an old one"
        )
    wrong = [name for name, kind in _FIELDS.items() if not _fits(fields[name], kind)]
    adapters = fields.get("adapters", [])
    named = isinstance(adapters, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in adapters
    )
    wrong += [] if named else ["adapters"]
    if fields["precision"] not in PRECISIONS and "precision" not in wrong:
        wrong.append("precision")
    if wrong:
        raise PromptError(f"it has another {', '.join(wrong)} than any record")
    searched = fields["options"].get("beams", 1) != 1
    if searched and fields["finish_reason"] == FinishReason.INTERRUPTED:
        raise PromptError("it is of a beam search that was interrupted")
    if searched and "max_time" in fields["options"]:
        raise PromptError("it is of a beam search that had a limit of time")
