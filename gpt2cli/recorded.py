"""What a text depends on beside its model, in the form of its record, and back again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final

from gpt2cli.config import (
    BeamConfig,
    ConstraintConfig,
    GenerationConfig,
    PromptConfig,
    SamplingConfig,
    TextConfig,
    values_of,
)
from gpt2cli.declarations import options_of
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import ModelShape
from gpt2cli.tokenizer import Tokenizer

# The options that a text depends on. How many samples there are, and what records tell of them,
# changes none.
_GROUPS: Final = (
    SamplingConfig, BeamConfig, PromptConfig, GenerationConfig, ConstraintConfig, TextConfig,
)  # fmt: skip
_OPTIONS: Final = {option.field: option for group in _GROUPS for option in options_of(group)}


def describe_options(request: Request) -> dict[str, Any]:
    """Return the options in effect that are not built in, as a record of a batch has them."""
    groups = (request.sampling, request.search, request.generation, request.constraint)
    values = values_of(*groups)
    values |= {"allow_special": request.allow_special, "heal": request.heal}
    return {
        field: option.as_json(values[field])
        for field, option in _OPTIONS.items()
        if values[field] != option.default
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the model saw, where that is more than the prompt's text.

    `ids` are runs, by turns those that are read, as the first is, and those that are stepped.
    `ends` are the stop sequences of a chat itself: a reply does not end within one. None: it is
    no reply, but the completion of a prompt that came as ids.
    """

    ids: Sequence[Sequence[int]]
    kept: int  # of the first ids, that stay where the others slide
    ends: Sequence[str] | None


def describe_context(prepared: PreparedRequest, ends: Sequence[str] | None) -> dict[str, Any]:
    """Return the context of a text, as its record has it."""
    stepped = prepared.stepped or [False] * len(prepared.prompt_ids)
    pairs = zip(stepped, prepared.prompt_ids, strict=True)
    ids = [[i for _, i in run] for _, run in groupby(pairs, key=lambda pair: pair[0])]
    return asdict(Context(ids=ids, kept=prepared.kept_tokens, ends=ends))


def read_request(record: Mapping[str, Any], *, index: int) -> Request:
    """Return the request of a record, with another index.

    Raises:
        UsageError: naming the option that is unknown, of a wrong type, or out of range.
    """
    unknown = [name for name in record["options"] if name not in _OPTIONS]
    if unknown:
        raise UsageError(f"unknown option {shorten(', '.join(unknown))}")
    values = {name: _OPTIONS[name].read(value) for name, value in record["options"].items()}

    def make(group: Any) -> Any:
        fields = (option.field for option in options_of(group))
        return group(**{field: values[field] for field in fields if field in values})

    search = make(BeamConfig)
    return Request(
        prompt=record["prompt"],
        sampling=make(SamplingConfig),
        generation=make(GenerationConfig),
        search=search,
        constraint=make(ConstraintConfig),
        seed=record["seed"],
        samples=record["sample"] + 1 if search.on else 1,
        index=index,
        allow_special=make(TextConfig).allow_special,
        heal=make(PromptConfig).heal,
    )


def read_context(record: Mapping[str, Any]) -> Context | None:
    """Return the context of a record; None if the model saw the prompt alone.

    Raises:
        PromptError: if it is not one.
    """
    value = record.get("context")
    if value is None:
        return None
    try:
        context = Context(**value)
        whole = [*(i for run in context.ids for i in run), context.kept]
        is_right = all(type(i) is int and i >= 0 for i in whole) and all(context.ids)
        is_right &= all(isinstance(end, str) for end in context.ends or ())
    except TypeError:
        is_right = False
    if not is_right:
        raise PromptError('"context" is not what any record has')
    return context


def prepare_again(
    request: Request, context: Context | None, tokenizer: Tokenizer, shape: ModelShape
) -> PreparedRequest:
    """Prepare the request of a record.

    Raises:
        PromptError, UsageError: as `prepare`, or if the context has an id that the model has not.
    """
    if context is None:
        return prepare(request, tokenizer, shape)
    ids = [i for run in context.ids for i in run]
    stepped = [number % 2 == 1 for number, run in enumerate(context.ids) for _ in run]
    if not ids or max(ids) >= shape.vocab_size or context.kept >= shape.n_positions:
        raise PromptError("its context is not one of this model")
    return prepare(
        request, tokenizer, shape, prompt_ids=ids, kept_tokens=context.kept, stepped=stepped
    )


def lift_time(request: Request) -> Request:
    """Return a request without a limit of time: how fast this machine is tells nothing."""
    return replace(request, generation=replace(request.generation, max_time=None))


def end_early(request: Request, tokens: int) -> Request:
    """Return a request that ends after so many tokens, as one did that was interrupted or late."""
    limits = request.generation
    least = min(limits.min_new_tokens, tokens)
    limits = replace(limits, max_new_tokens=tokens, min_new_tokens=least)
    return replace(request, generation=limits)
