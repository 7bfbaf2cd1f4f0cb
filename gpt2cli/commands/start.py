"""From options to a loaded model and a request that is ready to run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpt2cli.config import BeamConfig, ModelConfig, SampleConfig, SeedConfig
from gpt2cli.generation import (
    Chunk,
    Counts,
    PreparedRequest,
    draw_seed,
    generate,
    in_sample_order,
    make_request,
    prepare,
)
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.settings import Settings
from gpt2cli.store import Listener

_MOST_SLOTS: Final = 8


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


def get_ready(prompt: str, settings: Settings, *, listener: Listener) -> ReadyRequest:
    """Load the model and prepare the one request.

    Raises:
        Gpt2Error: whatever is wrong with the model, the prompt or the options.
    """
    search, samples = settings.make(BeamConfig), settings.make(SampleConfig).samples
    slots = search.beams if search.on else min(samples, _MOST_SLOTS)
    model = settings.make(ModelConfig)
    loaded = load_model(model, max_slots=slots, min_slots=search.beams, listener=listener)
    settings = settings.with_model(loaded.stored.folder.generation_config)
    request = make_request(settings, prompt, seed=choose_seed(settings))
    prepared = prepare(request, loaded.tokenizer, loaded.engine.shape)
    return ReadyRequest(loaded, prepared, settings.from_model)


def choose_seed(settings: Settings) -> int:
    """Return the user's seed, or a random one."""
    seed = settings.make(SeedConfig).seed
    return draw_seed() if seed is None else seed
