"""Completes one prompt on a server: sends it there, and takes the samples as they are made."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

from export.small_files import ReadError, parse_json
from gpt2cli.config import OF_A_PROMPT, ModelConfig
from gpt2cli.declarations import options_of
from gpt2cli.errors import Gpt2Error, PackageError, PromptError, ServerError, UsageError
from gpt2cli.generate.calling import Address, Caller, RefusalError
from gpt2cli.generate.same_model import find_difference
from gpt2cli.generate.showing import Piece, in_sample_order
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener
from gpt2cli.terminal.statistics import describe_memory, describe_origin, process_seconds

_GENERATE: Final = "/gpt2/generate"
_CANCEL: Final = "/gpt2/cancel"
_MODELS: Final = "/v1/models"
_MOST_BYTES: Final = 1 << 20  # of what is told of a model
_INTERRUPTED: Final = "interrupted"
_OPTIONS: Final = {option.field: option for group in OF_A_PROMPT for option in options_of(group)}
_KINDS: Final = {kind.__name__: kind for kind in (PackageError, PromptError)}


@dataclass(slots=True)
class Remote:
    """A request that a server has begun to answer."""

    caller: Caller
    identity: str  # of the request, for the server
    model: Mapping[str, Any]  # as the server tells it
    head: Mapping[str, Any]  # the record of a sample that has nothing yet
    from_model: Mapping[str, Any]  # settings that are the model's own
    answer: HTTPResponse
    opened: ExitStack  # which closes the answer
    samples: int
    cancelled: bool = False
    first_text_seconds: float | None = None  # of the process, when the first text had been shown
    texts: dict[int, str] = field(default_factory=lambda: defaultdict(str))  # of open samples
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # of their tokens

    @property
    def n_positions(self) -> int:
        """The model's limit, in tokens."""
        limit: int = self.model["max_model_len"]
        return limit

    def pieces(self, interrupted: Callable[[], bool]) -> Iterator[Piece]:
        """Yield the pieces of all samples, sample after sample, until `interrupted`.

        Raises:
            ServerError: if the server cuts them short or is lost, after what it gave.
        """
        with self.opened:
            for piece in in_sample_order(self._take(interrupted)):
                yield piece
                if self.first_text_seconds is None and piece.text:
                    self.first_text_seconds = process_seconds()

    def _take(self, interrupted: Callable[[], bool]) -> Iterator[Piece]:
        open_, is_cut = self.samples, False
        while open_:
            try:
                event = read_event(self.answer)
            except (OSError, HTTPException, ReadError) as error:
                yield from self._make_partial()
                fault = f"the connection to {self.caller.address.told} was lost before the end"
                raise ServerError(fault) from error
            if "error" in event:
                raise read_error(event, ServerError(self.caller.quote(event)))
            if interrupted() and not self.cancelled:
                return  # nobody reads
            piece = self._read_piece(event)
            if piece.record is not None:
                open_ -= 1
                is_cut |= piece.record["finish_reason"] == _INTERRUPTED
            if piece.record is None or piece.record["completion_tokens"] or not is_cut:
                yield piece  # else the sample had not begun
        if is_cut and not self.cancelled:
            told = "its time for a request is over, or it is being shut down"
            raise ServerError(
                f"the server at {self.caller.address.told} cut the text short: {told}"
            )

    def _read_piece(self, event: Mapping[str, Any]) -> Piece:
        piece = Piece(event["sample"], event["text"], event.get("record"))
        if piece.record is not None:
            self.texts.pop(piece.sample, None)
        else:
            self.texts[piece.sample] += piece.text
            self.counts[piece.sample] = event["tokens"]
        return piece

    def _make_partial(self) -> Iterator[Piece]:
        """Yield what ends the samples that were open: records as after Ctrl-C."""
        for sample, text in sorted(self.texts.items()):
            record = {key: value for key, value in self.head.items() if key != "logprobs"}
            made = {"completion": text, "completion_tokens": self.counts[sample], "sample": sample}
            yield Piece(sample, "", {**record, **made})

    def interrupt(self) -> None:
        """Have the server end all samples with what they have."""
        with suppress(ServerError), self.caller.ask(_CANCEL, {"id": self.identity}):
            self.cancelled = True

    def describe(self) -> Sequence[str]:
        """Return the lines of --stats."""
        model = self.model
        lines = [
            f"model {model['title']}, {model['precision']} on {model['device']}, context "
            f"{self.n_positions} tokens, served at {self.caller.address.told}"
        ]
        if self.first_text_seconds is not None:
            lines.append(f"first token {self.first_text_seconds:.2f} s after the process began")
        origin = describe_origin(seed=self.head["seed"], from_model=self.from_model)
        return [*lines, *describe_memory(), *origin]


def ask_server(
    prompt: str, settings: Settings, address: Address, key: str | None, *, listener: Listener
) -> Remote:
    """Send a prompt to a server whose model is the one that is asked for.

    Raises:
        ServerError: if it cannot be reached, refuses, or has another model.
        Gpt2Error: what is wrong with the prompt or the options, as if they had run here.
    """
    caller = Caller(address, key)
    model = _read_model(caller)
    difference = find_difference(settings.make(ModelConfig), model, listener=listener)
    if difference is not None:
        raise ServerError(
            f"the server at {address.told} has another model than the one asked for: {difference}"
        )
    given = {name: g.value for name, g in settings.given.items() if name in _OPTIONS}
    options = {name: _OPTIONS[name].as_json(value) for name, value in given.items()}
    identity = uuid.uuid4().hex
    opened = ExitStack()
    ask = {"id": identity, "prompt": prompt, "options": options}
    try:
        answer = opened.enter_context(caller.ask(_GENERATE, ask))
        head = read_event(answer)
    except RefusalError as refusal:
        raise read_error(refusal.body, refusal) from refusal
    except (OSError, HTTPException, ReadError) as error:
        raise ServerError(f"the connection to {address.told} was lost") from error
    from_model = settings.with_model(model["generation_config"]).from_model
    samples = settings.values["samples"]
    return Remote(caller, identity, model, head, from_model, answer, opened, samples)


def _read_model(caller: Caller) -> Mapping[str, Any]:
    try:
        with caller.ask(_MODELS) as answer:
            model: Mapping[str, Any] = parse_json(answer.read(_MOST_BYTES))["data"][0]
        _ = model["fingerprint"], model["asked"]["model"]
    except (ReadError, LookupError, TypeError) as error:
        raise caller.foreign() from error
    except (OSError, HTTPException) as error:
        raise ServerError(f"the connection to {caller.address.told} was lost") from error
    return model


def read_event(answer: HTTPResponse) -> Mapping[str, Any]:
    """Return the next line of an answer.

    Raises:
        OSError, HTTPException, ReadError: if there is none, or only a part of one.
    """
    line = answer.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError
    event: Mapping[str, Any] = parse_json(line)
    return event


def read_error(body: Mapping[str, Any], otherwise: Gpt2Error) -> Gpt2Error:
    """Return the error that a server tells of, as if it had been raised here."""
    told = body.get("gpt2")
    if not isinstance(told, dict):
        return otherwise
    fault, advice, option = (told.get(name) or "" for name in ("fault", "advice", "option"))
    if told.get("kind") == UsageError.__name__:
        return UsageError(
            fault,
            advice,
            option=option or None,
            expected=told.get("expected") or "",
            found=told.get("found"),
        )
    kind = _KINDS.get(told.get("kind", ""))
    return otherwise if kind is None else kind(fault, advice, option=option or None)
