"""From options to a loaded model and a request that is ready to run."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gpt2cli.commands.options import LimitOptions, ModelOptions, SamplingOptions
from gpt2cli.commands.text import unescape
from gpt2cli.generation import (
    Chunk,
    Counts,
    GenerationConfig,
    Overflow,
    PreparedRequest,
    Request,
    generate,
    in_sample_order,
    prepare,
)
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.sampling import SamplingConfig
from gpt2cli.settings import Settings, settle
from gpt2cli.store import Listener

_RANDOM_SEEDS: Final = 2**32  # enough, and short enough to type again
_MOST_SLOTS: Final = 8


@dataclass(frozen=True, slots=True)
class ReadyRequest:
    """A request whose model is loaded and whose prompt fits."""

    model: LoadedModel
    prepared: PreparedRequest
    from_model: Mapping[str, Any]  # settings that are the model's own
    counts: Counts = field(default_factory=Counts)

    def run(self) -> Iterator[Chunk]:
        """Yield the chunks of all samples, sample after sample."""
        model = self.model
        requests = [self.prepared]
        chunks = generate(
            model.engine, model.tokenizer, model.sampler, requests, counts=self.counts
        )
        return in_sample_order(chunks)


def get_ready(
    prompt: str,
    *,
    sampling: SamplingOptions,
    limits: LimitOptions,
    model: ModelOptions,
    samples: int,
    allow_special: bool,
    listener: Listener,
) -> ReadyRequest:
    """Check the options, load the model and prepare the one request.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the prompt.
    """
    _settle_sampling(sampling, {})  # before a model is loaded for nothing
    _settle_limits(limits, {})
    loaded = load(model, max_slots=min(samples, _MOST_SLOTS), listener=listener)
    own = loaded.stored.folder.generation_config
    sampling_settings, limit_settings = _settle_sampling(sampling, own), _settle_limits(limits, own)
    request = Request(
        prompt=prompt,
        sampling=sampling_settings.config,
        generation=limit_settings.config,
        seed=secrets.randbelow(_RANDOM_SEEDS) if sampling.seed is None else sampling.seed,
        samples=samples,
        allow_special=allow_special,
    )
    prepared = prepare(request, loaded.tokenizer, loaded.engine.shape)
    from_model = {**sampling_settings.from_model, **limit_settings.from_model}
    return ReadyRequest(loaded, prepared, from_model)


def load(options: ModelOptions, *, max_slots: int, listener: Listener) -> LoadedModel:
    """Load the model that the options name.

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
        listener=listener,
    )


def _settle_sampling(
    options: SamplingOptions, generation_config: Mapping[str, Any]
) -> Settings[SamplingConfig]:
    given = asdict(options)
    if options.greedy:
        given["temperature"] = 0.0
    return settle(SamplingConfig, given, generation_config)


def _settle_limits(
    options: LimitOptions, generation_config: Mapping[str, Any]
) -> Settings[GenerationConfig]:
    given = asdict(options)
    given["stop"] = tuple(unescape(text) for text in options.stop or ())
    given["overflow"] = Overflow(options.overflow.value)
    return settle(GenerationConfig, given, generation_config)
