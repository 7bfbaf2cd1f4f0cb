"""What the body of a request for completions asks for: its fields become prepared requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gpt2cli.errors import Gpt2Error, PromptError, UsageError, shorten
from gpt2cli.generation.requests import (
    PreparedRequest,
    Request,
    choose_seed,
    make_request,
    prepare,
)
from gpt2cli.model_folder import ModelShape
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.fields import MOST_CHARACTERS, SWITCH, Fields, is_id
from gpt2cli.sampling.random import seed_of
from gpt2cli.settings import Given, Layer, Settings
from gpt2cli.tokenizer import Tokenizer

# What OpenAI calls the options of the table, by their fields.
NAMES: Final[Mapping[str, str]] = {"max_new_tokens": "max_tokens", "samples": "n"}
_KNOWN: Final = (
    *("best_of", "echo", "model", "prompt", "stream", "stream_options", "suffix", "user"),
)
_MOST_COMPLETIONS: Final = 1024  # of a request
_FORMS: Final = "a text, token ids, or a list of one of them"

Prompt = str | Sequence[int]


@dataclass(frozen=True, slots=True)
class Form:
    """What of the results is wanted, and how."""

    choices: int = 1  # of each prompt
    best_of: int = 1  # how many are made of each, for the best to be chosen
    logprobs: int | None = None
    echo: bool = False
    stream: bool = False
    with_usage: bool = False  # at the end of a stream

    @property
    def scored(self) -> int | None:
        """How many alternatives of the prompts' tokens are wanted; None: no scores are."""
        return self.logprobs if self.echo else None


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for."""

    prompts: Sequence[PreparedRequest]
    by_ids: bool  # whether these came as token ids
    form: Form
    names: Mapping[str, str]  # what the client calls the options, by their fields

    @property
    def scored(self) -> int | None:
        """How many alternatives of the prompts' tokens are wanted; None: no scores are."""
        return self.form.scored


class Host(Protocol):
    """What answers a request."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings for what a request does not say, with the model's own."""
        ...

    def check_model(self, name: str) -> None:
        """Refuse a request that is for another model, by a Fault."""
        ...

    def check_size(self, request: Request) -> None:
        """Refuse a request that takes too much, by a UsageError."""
        ...


def read_ask(body: Mapping[str, Any], host: Host) -> Ask:
    """Read the fields of a request, and prepare its prompts.

    Raises:
        Fault: naming the field that is wrong.
    """
    fields = Fields(body, NAMES)
    fields.refuse_unknown(_KNOWN)
    if fields.read("suffix", str, "", "a text"):
        raise Fault(400, "suffix: this model only continues a text; leave it out", param="suffix")
    check_model_field(fields, host)
    prompts = _read_prompts(fields.given)
    own = fields.read_options()
    form = _read_form(fields, own)
    check_count(len(prompts) * form.best_of, "prompt")
    own = {**own, "samples": Given(form.best_of)}
    if form.best_of > form.choices and form.logprobs is None:
        own["logprobs"] = Given(0)  # by which the best are found
    try:
        prepared = _prepare_all(prompts, host.settings.over(own), host)
        if form.scored is not None:
            _check_scored(prepared, host.shape.n_positions)
    except Gpt2Error as error:
        raise explain(error, fields.spelling) from error
    return Ask(prepared, not isinstance(prompts[0], str), form, fields.spelling)


def find_names(asked: str | None, name: str) -> frozenset[str]:
    """Return what a request may call the model: as it was asked for, and as results have it."""
    return frozenset({asked or name, name})


def check_model_field(fields: Fields, host: Host) -> None:
    """Refuse a request that names another model, by a Fault."""
    model = fields.read("model", str, None, "a text")
    if model is not None:
        host.check_model(model)


def _read_prompts(given: Mapping[str, Any]) -> Sequence[Prompt]:
    """Return the prompts; none at all is the empty one, as in OpenAI's API."""
    prompt = given.get("prompt", "")
    many = isinstance(prompt, list) and bool(prompt) and not is_id(prompt[0])
    prompts = prompt if many else [prompt]
    forms = {_find_form(one) for one in prompts}
    if len(forms) > 1 or None in forms:
        found = shorten(repr(prompt))
        raise Fault(400, f"prompt: expected {_FORMS}, found {found}", param="prompt")
    return prompts


def _find_form(prompt: Any) -> type[Any] | None:
    if isinstance(prompt, str):
        if len(prompt) > MOST_CHARACTERS:
            fault = f"prompt: it has {len(prompt)} characters, the limit is {MOST_CHARACTERS}"
            raise Fault(400, fault, param="prompt")
        return str
    is_ids = isinstance(prompt, list) and bool(prompt) and all(map(is_id, prompt))
    return list if is_ids else None


def _read_form(fields: Fields, own: Layer) -> Form:
    values = {name: given.value for name, given in own.items()}
    choices, stream = values.get("samples", 1), fields.read("stream", bool, False, SWITCH)
    best_of = fields.read("best_of", int, choices, "a whole number")
    if best_of < choices or (best_of > choices and (stream or values.get("beams", 1) > 1)):
        name = fields.spelling.get("samples", "samples")
        expected = f"{'' if best_of > choices else 'at least '}{name}, {choices}"
        raise Fault(400, f"best_of: expected {expected}, found {best_of}", param="best_of")
    return Form(
        choices,
        best_of,
        values.get("logprobs"),
        fields.read("echo", bool, False, SWITCH),
        stream,
        read_usage_wanted(fields, stream=stream),
    )


def read_usage_wanted(fields: Fields, *, stream: bool) -> bool:
    """Tell whether the usage is wanted at the end of a stream.

    Raises:
        Fault: if it is no stream, or something else is asked for.
    """
    name = "stream_options"
    options = fields.read(name, dict, {}, "an object")
    if options and not stream:
        raise Fault(400, f"{name}: expected stream true together with it", param=name)
    wanted = options.get("include_usage", False)
    if options.keys() - {"include_usage", "include_obfuscation"} or type(wanted) is not bool:
        found = shorten(repr(options))
        raise Fault(400, f'{name}: expected {{"include_usage": true}}, found {found}', param=name)
    return wanted


def check_count(completions: int, param: str) -> None:
    """Refuse more completions than a request may ask for, by a Fault."""
    if completions > _MOST_COMPLETIONS:
        fault = f"it asks for {completions} completions, the limit is {_MOST_COMPLETIONS}"
        raise Fault(400, fault, param=param)


def _check_scored(prompts: Sequence[PreparedRequest], limit: int) -> None:
    if any(prepared.request.heal for prepared in prompts):
        raise UsageError(option="heal", expected="no echo with logprobs together with it")
    longest = max(len(prepared.prompt_ids) for prepared in prompts)
    if longest > limit:
        fault = f"a prompt to score has {longest} tokens, the model takes {limit}"
        raise PromptError(fault, "shorten it, or leave echo or logprobs out")


def _prepare_all(
    prompts: Sequence[Prompt], settings: Settings, host: Host
) -> Sequence[PreparedRequest]:
    """Prepare the prompts: each has the seed plus its number, as in a batch."""
    seed = choose_seed(settings)
    tokenizer, shape = host.tokenizer, host.shape
    prepared = []
    for index, prompt in enumerate(prompts):
        ids = None if isinstance(prompt, str) else prompt
        if ids is not None and settings.values.get("heal"):
            raise UsageError(option="heal", expected="prompts that are texts, not token ids")
        if ids is not None and max(ids) >= shape.vocab_size:
            last, found = shape.vocab_size - 1, shorten(str(max(ids)))
            raise PromptError(f"expected token ids 0 to {last}, found {found}")
        text = prompt if isinstance(prompt, str) else tokenizer.show(prompt)
        request = make_request(settings, text, seed=seed_of(seed, index), index=index)
        host.check_size(request)
        prepared.append(prepare(request, tokenizer, shape, prompt_ids=ids))
    return prepared
