"""From options to a loaded model and a request that is ready to run."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from export.small_files import ReadError, parse_json, read_text
from gpt2cli.commands.options import (
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.errors import UsageError, shorten
from gpt2cli.generation import (
    Chunk,
    Counts,
    GenerationConfig,
    Overflow,
    PreparedRequest,
    Request,
    draw_seed,
    generate,
    in_sample_order,
    prepare,
)
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.sampling import BeamConfig, ConstraintConfig, SamplingConfig
from gpt2cli.settings import settle
from gpt2cli.store import Listener

_MOST_SLOTS: Final = 8


@dataclass(frozen=True, slots=True)
class SettledOptions:
    """The configurations of a request, and which of their values are the model's own."""

    sampling: SamplingConfig
    generation: GenerationConfig
    search: BeamConfig
    constraint: ConstraintConfig
    from_model: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadyRequest:
    """A request whose model is loaded and whose prompt fits."""

    model: LoadedModel
    prepared: PreparedRequest
    from_model: Mapping[str, Any]  # settings that are the model's own
    counts: Counts = field(default_factory=Counts)

    def run(self, interrupted: Callable[[], bool]) -> Iterator[Chunk]:
        """Yield the chunks of all samples, sample after sample, until `interrupted`."""
        chunks = generate(
            self.model.engine,
            self.model.tokenizer,
            self.model.sampler,
            [self.prepared],
            counts=self.counts,
            interrupted=interrupted,
        )
        return in_sample_order(chunks)


def get_ready(
    prompt: str,
    *,
    sampling: SamplingOptions,
    search: SearchOptions,
    constraint: ConstraintOptions,
    limits: LimitOptions,
    model: ModelOptions,
    samples: int,
    logprobs: int | None,
    allow_special: bool,
    listener: Listener,
) -> ReadyRequest:
    """Check the options, load the model and prepare the one request.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the prompt.
    """
    given = give_sampling(sampling) | asdict(search) | give_limits(limits)
    given |= give_constraint(constraint)
    asked = settle_options(given, {})
    request = Request(  # before the model is loaded: a bad option is told at once
        prompt=prompt,
        sampling=asked.sampling,
        generation=asked.generation,
        search=asked.search,
        constraint=asked.constraint,
        seed=choose_seed(sampling),
        samples=samples,
        allow_special=allow_special,
        logprobs=logprobs,
    )
    beams = asked.search.beams  # 1 where nothing is searched
    slots = beams if asked.search.on else min(samples, _MOST_SLOTS)
    loaded = load(model, max_slots=slots, min_slots=beams, listener=listener)
    settled = settle_options(given, loaded.stored.folder.generation_config)
    request = replace(request, sampling=settled.sampling, generation=settled.generation)
    prepared = prepare(request, loaded.tokenizer, loaded.engine.shape)
    return ReadyRequest(loaded, prepared, settled.from_model)


def load(
    options: ModelOptions, *, max_slots: int | None, min_slots: int = 1, listener: Listener
) -> LoadedModel:
    """Load the model that the options name, with slots as `load_model`.

    Raises:
        ModelError, DeviceError, UsageError: as `load_model`.
    """
    return load_model(
        options.model,
        revision=options.revision,
        precision=options.precision.value,
        device=options.device,
        threads=options.threads,
        offline=options.offline,
        max_slots=max_slots,
        min_slots=min_slots,
        listener=listener,
    )


def settle_options(
    given: Mapping[str, Any],
    generation_config: Mapping[str, Any],
    *,
    built_in: Mapping[str, Any] = MappingProxyType({}),
) -> SettledOptions:
    """Return the configurations: what the user gave, else the model's values, else built in.

    `built_in`: a command's own defaults, in place of the configurations'.

    Raises:
        UsageError: if a value of the user's is out of range.
        ModelError: if a value of the model's is.
    """
    sampling = settle(SamplingConfig, given, generation_config, built_in=built_in)
    limits = settle(GenerationConfig, given, generation_config, built_in=built_in)
    from_model = {**sampling.from_model, **limits.from_model}
    search = settle(BeamConfig, given, generation_config)
    constraint = settle(ConstraintConfig, given, {})
    return SettledOptions(
        sampling.config, limits.config, search.config, constraint.config, from_model
    )


def choose_seed(options: SamplingOptions) -> int:
    """Return the user's seed, or a random one."""
    return draw_seed() if options.seed is None else options.seed


def give_sampling(options: SamplingOptions) -> dict[str, Any]:
    """Return what the user gave of SamplingConfig's fields; None: nothing.

    Raises:
        UsageError: if a logit bias has no number.
    """
    given = asdict(options)
    if options.greedy:
        given["temperature"] = 0.0
    given["logit_bias"] = tuple(_read_bias(text) for text in options.logit_bias or ())
    given["ban"] = tuple(options.ban or ())
    return given


def _read_bias(text: str) -> tuple[str, float]:
    token, equals, bias = text.rpartition("=")  # the last: the token may be or hold one
    try:
        if equals:
            return token, float(bias)
    except ValueError:
        pass
    raise UsageError(f"--logit-bias: expected ID_OR_TEXT=NUMBER, found {shorten(text)!r}")


def give_limits(options: LimitOptions) -> dict[str, Any]:
    """Return what the user gave of GenerationConfig's fields; None: nothing."""
    given = asdict(options)
    given["stop"] = tuple(options.stop or ())
    given["overflow"] = Overflow(options.overflow.value)
    return given


def give_constraint(options: ConstraintOptions) -> dict[str, Any]:
    """Return what the user gave of ConstraintConfig's fields; None: nothing.

    Raises:
        UsageError: if the schema's file cannot be read, or holds no JSON object.
    """
    given: dict[str, Any] = asdict(options)
    if options.choice is not None:
        given["choice"] = tuple(options.choice)
    if options.json_schema is not None:
        given["json_schema"] = _read_schema(options.json_schema)
    return given


def _read_schema(path: Path) -> str:
    try:
        text = read_text(path, pipes=True)
        schema = parse_json(text)
    except ReadError as error:
        raise UsageError(f"--json-schema: it {error}") from error
    if not isinstance(schema, dict):
        shown = shorten(json.dumps(schema))
        raise UsageError(f"--json-schema: expected a JSON schema, an object, found {shown}")
    return text
