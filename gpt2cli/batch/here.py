"""Runs the records of a batch by an engine in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpt2cli.batch.lines import make_line
from gpt2cli.batch.results import BatchRun
from gpt2cli.batch.runner import Conditions, Plan
from gpt2cli.config import BeamConfig, DraftConfig, ModelConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.generation.interfaces import Counts
from gpt2cli.loading import LoadedModel
from gpt2cli.records import describe_versions
from gpt2cli.resumable.input import ItemSource, Line
from gpt2cli.store.store import Listener
from gpt2cli.terminal.statistics import describe_run


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """A model in this process."""

    model: LoadedModel
    as_text: bool
    counts: Counts = field(default_factory=Counts)

    @property
    def conditions(self) -> Conditions:
        """What its model is."""
        return Conditions(
            stored=self.model.stored,
            tokenizer=self.model.tokenizer,
            most_beams=self.model.engine.slot_limit,
            device=str(self.model.engine.device),
            versions=describe_versions(self.model),
        )

    def run(
        self, items: ItemSource[Any], show: Callable[[Line], None], interrupted: Callable[[], bool]
    ) -> None:
        """Show the lines of all records, as a `Runner`."""
        model = self.model
        run = BatchRun(
            items,
            lambda result: show(make_line(result, model, as_text=self.as_text)),
            slots=model.engine.max_slots,
            interrupted=interrupted,
        )
        run.run(
            model.engine,
            model.tokenizer,
            model.sampler,
            counts=self.counts,
            drafting=model.drafting,
        )

    def tell_progress(self) -> str:
        """Return nothing: records and tokens are all."""
        return ""

    def describe(self, *, seed: int, from_model: Mapping[str, Any]) -> Sequence[str]:
        """Return the lines of --stats."""
        lines = describe_run(self.model, self.counts, seed=seed, from_model=from_model)
        return [f"batch size {self.model.engine.max_slots}", *lines]


def open_here(plan: Plan, listener: Listener) -> LocalRunner:
    """Load the model.

    Raises:
        Gpt2Error: as `load_with_draft`.
    """
    settings = plan.settings
    model = load_with_draft(
        settings.make(ModelConfig),
        settings.make(DraftConfig),
        max_slots=plan.io.batch_size,
        min_slots=settings.make(BeamConfig).beams,
        listener=listener,
    )
    return LocalRunner(model, plan.io.as_text)
