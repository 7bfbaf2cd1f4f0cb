"""Completes one prompt on this machine: loads the model, and makes the samples."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpt2cli.config import BeamConfig, DraftConfig, ModelConfig, SampleConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.generate.showing import Piece, in_sample_order
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, choose_seed, make_request, prepare
from gpt2cli.loading import LoadedModel
from gpt2cli.records import make_record
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener
from gpt2cli.terminal.statistics import describe_run, process_seconds

_MOST_SLOTS: Final = 8


@dataclass(slots=True)
class Run:
    """A request whose model is loaded and whose prompt fits."""

    model: LoadedModel
    prepared: PreparedRequest
    from_model: Mapping[str, Any]  # settings that are the model's own
    counts: Counts = field(default_factory=Counts)
    first_text_seconds: float | None = None  # of the process, when the first text had been shown

    @property
    def n_positions(self) -> int:
        """The model's limit, in tokens."""
        return self.model.engine.shape.n_positions

    def pieces(self, interrupted: Callable[[], bool]) -> Iterator[Piece]:
        """Yield the pieces of all samples, sample after sample, until `interrupted`."""
        pieces = self._make(interrupted)
        alone = self.prepared.request.samples == 1
        # Several samples run side by side; a single one need not be put in order.
        for piece in pieces if alone else in_sample_order(pieces):
            yield piece
            if self.first_text_seconds is None and piece.text:
                self.first_text_seconds = process_seconds()

    def _make(self, interrupted: Callable[[], bool]) -> Iterator[Piece]:
        model, request = self.model, self.prepared.request
        chunks = generate(
            model.engine,
            model.tokenizer,
            model.sampler,
            [self.prepared],
            counts=self.counts,
            interrupted=interrupted,
            drafting=model.drafting,
        )
        completions: dict[int, str] = defaultdict(str)
        for chunk in chunks:
            number, finish = chunk.sample, chunk.finish
            completions[number] += chunk.text
            record = None
            if finish is not None:
                text = completions[number]
                record = make_record(
                    request, sample=number, completion=text, finish=finish, model=model
                )
            yield Piece(number, chunk.text, record)

    def interrupt(self) -> None:
        """Do nothing: `interrupted` is asked before each step."""

    def describe(self) -> Sequence[str]:
        """Return the lines of --stats."""
        return describe_run(
            self.model,
            self.counts,
            seed=self.prepared.request.seed,
            first_token_seconds=self.first_text_seconds,
            from_model=self.from_model,
        )


def get_ready(prompt: str, settings: Settings, *, listener: Listener) -> Run:
    """Load the model and prepare the one request.

    Raises:
        Gpt2Error: whatever is wrong with the model, the prompt or the options.
    """
    search, samples = settings.make(BeamConfig), settings.make(SampleConfig).samples
    slots = search.beams if search.on else min(samples, _MOST_SLOTS)
    model = settings.make(ModelConfig)
    draft = DraftConfig() if search.on else settings.make(DraftConfig)  # beams do not draft
    loaded = load_with_draft(
        model, draft, max_slots=slots, min_slots=search.beams, listener=listener
    )
    settings = settings.with_model(loaded.stored.folder.generation_config)
    request = make_request(settings, prompt, seed=choose_seed(settings))
    prepared = prepare(request, loaded.tokenizer, loaded.engine.shape)
    return Run(loaded, prepared, settings.from_model)
