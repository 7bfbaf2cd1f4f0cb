"""Runs a batch on a cluster: sets the workers up, and sees that they compute alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from gpt2cli.batch.cluster.config import ClusterConfig
from gpt2cli.batch.cluster.dispatch import Dispatcher
from gpt2cli.batch.cluster.messages import Ready, Setup
from gpt2cli.batch.cluster.ray_workers import RayWorkers, joined
from gpt2cli.batch.cluster.state import Workers, WorkerState
from gpt2cli.batch.runner import Conditions, Plan
from gpt2cli.config import DraftConfig, ModelConfig
from gpt2cli.loading import find_stored, find_usual_precision_on
from gpt2cli.openai.asking import find_names
from gpt2cli.resumable.input import ItemSource, Line
from gpt2cli.store.store import StoredModel
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.statistics import describe_memory, describe_origin
from gpt2cli.tokenizer import Tokenizer

_MOMENT: Final = 0.1  # seconds


@contextmanager
def opened_cluster(plan: Plan, config: ClusterConfig, notes: Notes) -> Iterator["ClusterRunner"]:
    """Give a runner whose first worker is ready; at the end no worker is left.

    Raises:
        Gpt2Error: if the cluster or the model cannot be had.
    """
    model = plan.settings.make(ModelConfig)
    usual = find_usual_precision_on("cuda" if config.gpus_per_worker else "cpu")
    stored = find_stored(model, auto_precision=usual, listener=notes)
    notes.stage("joining the cluster")
    with joined(config) as ray:
        workers = RayWorkers(ray, config, _make_setup(plan, stored, model))
        notes.stage(f"loading {stored.name} on the cluster")
        yield ClusterRunner(stored, workers, notes)


def _make_setup(plan: Plan, stored: StoredModel, model: ModelConfig) -> Setup:
    # A worker has another working folder.
    folder = replace(stored.folder, path=stored.folder.path.absolute())
    is_folder = Path(stored.name).is_dir()
    return Setup(
        stored=replace(stored, folder=folder),
        by_name=not is_folder,
        model=replace(model, model=str(Path(stored.name).absolute()) if is_folder else stored.name),
        model_names=find_names(model.model, stored.name),
        draft=plan.settings.make(DraftConfig),
        settings=plan.settings.with_model(stored.folder.generation_config),
        seed=plan.seed,
        jsonl=plan.jsonl,
        as_text=plan.io.as_text,
        extra_fields=plan.io.extra_fields,
        batch_size=plan.io.batch_size,
        version=metadata.version("gpt2"),
    )


@dataclass(slots=True)
class _Agreement:
    """What all workers must have alike, by the first one, and a note where bits differ."""

    stored: StoredModel
    note: Callable[[str], None]
    first: Ready | None = None
    bits: dict[str, str] = field(default_factory=dict)  # digest -> the first machine with it

    def admit(self, ready: Ready) -> str | None:
        """Return why a worker may not work with the others; None if it may."""
        first = self.first = self.first or ready
        for name, found, wanted in (
            ("weights", ready.fingerprint, self.stored.folder.fingerprint),
            ("device", ready.device.partition(":")[0], first.device.partition(":")[0]),
            ("onnxruntime", ready.versions["onnxruntime"], first.versions["onnxruntime"]),
        ):
            if found != wanted:
                return f"{ready.node} has {name} {found}, others {wanted}"
        if ready.bits not in self.bits and self.bits:
            other = next(iter(self.bits.values()))
            told = f"{ready.node} computes other bits than {other}, as kinds of processors do"
            self.note(f"{told}: a text may depend on which of them made it")
        self.bits.setdefault(ready.bits, ready.node)
        return None


class ClusterRunner:
    """Workers on a cluster."""

    def __init__(self, stored: StoredModel, workers: Workers, notes: Notes) -> None:
        """Wait for the first worker.

        Raises:
            Gpt2Error: if none can run.
        """
        self._stored = stored
        self._agreement = _Agreement(stored, notes.note)
        self._dispatcher = Dispatcher(workers, notes.note, self._agreement.admit)
        while not self._dispatcher.alive:
            self._dispatcher.listen(_MOMENT)
        self._tokenizer = Tokenizer(stored.folder, notes.note)

    @property
    def conditions(self) -> Conditions:
        """What its model is."""
        first = self._agreement.first
        assert first is not None
        return Conditions(
            stored=self._stored,
            tokenizer=self._tokenizer,
            most_beams=first.most_beams,
            device=first.device,
            versions=first.versions,
        )

    def run(
        self, items: ItemSource[Any], show: Callable[[Line], None], interrupted: Callable[[], bool]
    ) -> None:
        """Show the lines of all records, as a `Runner`."""
        self._dispatcher.run(items, show, interrupted)

    def tell_progress(self) -> str:
        """Return how many workers are alive, and how often one began anew."""
        alive, restarts = self._dispatcher.alive, self._dispatcher.restarts
        told = f", {alive} worker{'' if alive == 1 else 's'}"
        return f"{told}, {restarts} restart{'' if restarts == 1 else 's'}" if restarts else told

    def describe(self, *, seed: int, from_model: Mapping[str, Any]) -> Sequence[str]:
        """Return the lines of --stats: of each worker, and what a text depends on."""
        stored, first = self._stored, self.conditions
        return [
            f"model {stored.title}, {stored.folder.precision} on {first.device}",
            *(_describe(n, state) for n, state in sorted(self._dispatcher.states.items())),
            *describe_memory(),
            *describe_origin(seed=seed, from_model=from_model),
        ]


def _describe(number: int, state: WorkerState) -> str:
    ready = state.ready
    threads = f"{ready.threads} thread{'' if ready.threads == 1 else 's'}"
    restarts = f", {state.restarts} restarts" if state.restarts else ""
    return (
        f"worker {number} on {ready.node}, {threads}, batch size {ready.slots}: "
        f"{state.records} records, {state.tokens} tokens ({state.rate:.1f} tokens/s){restarts}"
    )
