"""What `gpt2 generate --server` asks for, and what it is told: all that a run there would know."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from gpt2cli.errors import Gpt2Error, UsageError
from gpt2cli.generation.interfaces import Finish
from gpt2cli.generation.requests import PreparedRequest, choose_seed, make_request, prepare
from gpt2cli.loading import LoadedModel
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.fields import MOST_CHARACTERS, Fields, read_object
from gpt2cli.openai.pieces import Piece, Results
from gpt2cli.prompt_options import OPTIONS, read_options
from gpt2cli.records import make_record
from gpt2cli.serve.http import EventStream
from gpt2cli.serve.jobs import make_cut
from gpt2cli.serve.service import Service
from gpt2cli.settings import Settings

_KNOWN: Final = ("id", "prompt", "options")
_LONGEST_ID: Final = 64


@dataclass(frozen=True, slots=True)
class OwnAsk:
    """A prompt, and the name by which it may be cancelled."""

    prepared: PreparedRequest
    identity: str

    @property
    def prompts(self) -> Sequence[PreparedRequest]:
        """The one prompt."""
        return [self.prepared]

    @property
    def scored(self) -> None:
        """How many alternatives of the prompt's tokens are wanted: none are."""
        return


def read_own(data: bytes, service: Service) -> OwnAsk:
    """Read the body of a request, and prepare its prompt with the options of its user alone.

    Raises:
        Fault, Gpt2Error: if something is wrong.
    """
    fields = Fields(read_object(data), {})
    fields.refuse_unknown(_KNOWN, options=())
    options = fields.read("options", dict, {}, "an object")
    unknown = next((name for name in options if name not in OPTIONS), None)
    if unknown is not None:
        raise Fault(400, f"unknown option {unknown}", param="options")
    settings = _find_models_own(service).over(read_options(options))
    request = make_request(settings, _read_prompt(fields), seed=choose_seed(settings))
    service.check_size(request)
    prepared = prepare(request, service.model.tokenizer, service.model.engine.shape)
    return OwnAsk(prepared, read_identity(fields))


def _read_prompt(fields: Fields) -> str:
    prompt: str = fields.read("prompt", str, "", "a text")
    if len(prompt) > MOST_CHARACTERS:
        fault = (
            f"the prompt has {len(prompt)} characters, the limit of the server is {MOST_CHARACTERS}"
        )
        raise Fault(400, fault, param="prompt")
    return prompt


def read_identity(fields: Fields) -> str:
    """Return the name that the client gave its request.

    Raises:
        Fault: if it is none.
    """
    identity: str = fields.read("id", str, "", "a text")
    if len(identity) > _LONGEST_ID:
        raise Fault(400, f"id: expected at most {_LONGEST_ID} characters", param="id")
    return identity


def _find_models_own(service: Service) -> Settings:
    """Return what holds where the user said nothing, as in a run of its own."""
    return Settings(OPTIONS, ({},)).with_model(service.model.stored.folder.generation_config)


async def tell_own(
    ask: OwnAsk, model: LoadedModel, first: Results, others: AsyncGenerator[Results]
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the record of a sample that has nothing yet, then pieces; the last ones with records.

    Raises:
        Fault: if the options of the request leave nothing to choose.
    """
    nothing = make_cut(ask.prepared).finish
    assert nothing is not None
    yield _record(ask, model, 0, "", nothing)
    completions: dict[int, str] = defaultdict(str)
    async with aclosing(others):
        async for piece in _chain(first, others):
            sample, finish = piece.key[1], piece.finish
            completions[sample] += piece.text
            if finish is not None and finish.error is not None:
                raise explain(finish.error) from finish.error
            event: dict[str, Any] = {"sample": sample, "text": piece.text, "tokens": piece.drawn}
            if finish is not None:
                event["record"] = _record(ask, model, sample, completions[sample], finish)
            yield event


async def _chain(first: Results, others: AsyncGenerator[Results]) -> AsyncGenerator[Piece]:
    for piece in first[1]:
        yield piece
    async for _, pieces in others:
        for piece in pieces:
            yield piece


def _record(
    ask: OwnAsk, model: LoadedModel, sample: int, completion: str, finish: Finish
) -> dict[str, Any]:
    request = ask.prepared.request
    return make_record(request, sample=sample, completion=completion, finish=finish, model=model)


class LineStream(EventStream):
    """Lines, each of them JSON."""

    media_type = "application/x-ndjson"
    ending = "{}"

    def frame(self, data: str) -> str:
        """Return an event as it is sent."""
        return f"{data}\n"

    def tell(self, fault: Fault) -> dict[str, Any]:
        """Return what is sent of an error."""
        return tell_error(fault)


def tell_error(error: Exception) -> dict[str, Any]:
    """Return OpenAI's error object, and what it is made of where that is one of our errors."""
    cause = error.__cause__ if isinstance(error, Fault) else error
    told = explain(error).as_json
    if not isinstance(cause, Gpt2Error):
        return told
    own = {
        "kind": type(cause).__name__,
        "fault": cause.fault,
        "advice": cause.advice,
        "option": cause.option,
    }
    if isinstance(cause, UsageError):
        found = None if cause.found is None else str(cause.found)
        own |= {"expected": cause.expected, "found": found}
    return {**told, "gpt2": own}
