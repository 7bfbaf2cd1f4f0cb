"""A worker: one engine that is given records as they come, and hands back their lines.

It knows nothing of what carries its messages.
"""

import platform
import queue
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

from gpt2cli.batch.cluster.folders import FolderReceiver, Piece, received_folder
from gpt2cli.batch.cluster.messages import Lacking, Parcel, Ready, Refused, Reply, Setup, unpack
from gpt2cli.batch.items import BatchItem, ItemParser, chat_of
from gpt2cli.batch.lines import make_line
from gpt2cli.batch.results import BatchRun, Result
from gpt2cli.config import AUTO, BeamConfig, ModelConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.errors import Gpt2Error, ModelError
from gpt2cli.generation.interfaces import Counts
from gpt2cli.loading import LoadedModel, digest_bits
from gpt2cli.model_folder import read_model_folder
from gpt2cli.records import describe_versions
from gpt2cli.resumable.input import Line

_MOMENT: Final = 0.1  # seconds
_LONGEST_SILENCE: Final = 0.5  # seconds until a reply that tells of nothing: records can come again
_SHARE_TOLD: Final = 4  # a reply waits until a fourth as many records are done as run at once


class Worker:
    """Loads a model, and runs records side by side on a thread of its own."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._items = QueuedItems()
        self._changed = threading.Condition()
        self._lines: defaultdict[int, list[Line]] = defaultdict(list)  # of records that run
        self._done: list[list[Line]] = []
        self._unfinished = 0  # records that were given, and are not told of as done
        self._failure: str | None = None
        self._slots = 1
        self._receiver: FolderReceiver | None = None
        self._opened: Ready | Lacking | Refused | None = None

    def open(self) -> Ready | Lacking | Refused:
        """Load the model and begin to work; asked again, tell the same."""
        if not isinstance(self._opened, Ready):
            self._opened = self._open()
        return self._opened

    def _open(self) -> Ready | Lacking | Refused:
        node, version = platform.node(), metadata.version("gpt2")
        if version != self._setup.version:
            told = f"{node} has gpt2 {version}, this machine {self._setup.version}"
            return Refused(f"{told}; install the same on both", for_all=True)
        try:
            found = self._find()
            if found is None:
                return Lacking(node)
            model = self._load(found)
        except Gpt2Error as error:
            return Refused(f"{node}: {error}")
        self._slots = model.engine.max_slots
        threading.Thread(target=self._work, args=(model,), name="engine", daemon=True).start()
        return Ready(
            node=node,
            slots=model.engine.max_slots,
            most_beams=model.engine.slot_limit,
            threads=model.engine.threads,
            device=str(model.engine.device),
            fingerprint=model.stored.folder.fingerprint,
            versions=describe_versions(model),
            bits=digest_bits(model),
        )

    def receive(self, piece: Piece) -> None:
        """Take a piece of the model's folder, which this machine lacks."""
        if self._receiver is None:
            self._receiver = FolderReceiver(self._setup.stored.folder)
        self._receiver.write(piece)

    def finish_folder(self) -> None:
        """All pieces were sent: give the folder its name."""
        if self._receiver is not None:
            self._receiver.finish()
        self._receiver = None

    def exchange(self, parcels: Sequence[Parcel]) -> Reply:
        """Take more records; return what is done, after a while or when it is worth telling."""
        self._items.put(parcels)
        with self._changed:
            self._unfinished += len(parcels)
            self._changed.wait_for(self._is_worth_telling, _LONGEST_SILENCE)
            done, self._done = self._done, []
            self._unfinished -= len(done)
            return Reply(done, self._failure)

    def _is_worth_telling(self) -> bool:
        few = self._slots // _SHARE_TOLD
        all_done = len(self._done) == self._unfinished
        return self._failure is not None or all_done or len(self._done) > few

    def _find(self) -> ModelConfig | None:
        """Return what gives the model on this machine; None if it must be sent."""
        setup, wanted = self._setup, self._setup.stored.folder
        precise = replace(setup.model, revision=setup.stored.revision, precision=wanted.precision)
        if setup.draft.on:  # which is found by the model's own name
            return precise if setup.by_name else setup.model
        for path in (wanted.path, received_folder(wanted)):
            try:
                if read_model_folder(path).files == wanted.files:
                    return _of_folder(setup.model, path)
            except ModelError:  # of another machine, or another model's
                continue
        return precise if setup.by_name else None

    def _load(self, config: ModelConfig) -> LoadedModel:
        setup, stored = self._setup, self._setup.stored
        model = load_with_draft(
            config,
            setup.draft,
            max_slots=setup.batch_size,
            min_slots=setup.settings.make(BeamConfig).beams,
            listener=Silence(),
        )
        # Under the name that records have on one machine.
        return replace(model, stored=replace(stored, folder=model.stored.folder))

    def _work(self, model: LoadedModel) -> None:
        setup = self._setup
        self._items.parser = ItemParser(
            settings=setup.settings,
            tokenizer=model.tokenizer,
            shape=model.engine.shape,
            run_seed=setup.seed,
            jsonl=setup.jsonl,
            most_beams=model.engine.slot_limit,
            extra_fields=setup.extra_fields,
            model_names=setup.model_names,
            as_text=setup.as_text,
            open_chat=chat_of(model.stored.folder, Silence().note),
        )

        def accept(result: Result) -> None:
            self._accept(make_line(result, model, as_text=setup.as_text), result.item.results)

        try:
            run = BatchRun(self._items, accept, slots=model.engine.max_slots, in_order=False)
            counts = Counts()
            run.run(
                model.engine,
                model.tokenizer,
                model.sampler,
                counts=counts,
                drafting=model.drafting,
            )
        except Exception as error:  # whatever it is, the driver must hear of it
            with self._changed:
                self._failure = " ".join(f"{type(error).__name__}: {error}".split())
                self._changed.notify_all()

    def _accept(self, line: Line, count: int) -> None:
        lines = self._lines[line.index]
        lines.append(line)
        if len(lines) < count:
            return
        del self._lines[line.index]
        with self._changed:
            self._done.append(sorted(lines, key=lambda line: line.sample))
            self._changed.notify_all()


def _of_folder(config: ModelConfig, path: Path) -> ModelConfig:
    """Return the configuration of a model folder: it has one precision, and adapters in it."""
    same = replace(config, model=str(path), precision=AUTO)
    return replace(same, revision=None, step=None, adapter=())


class QueuedItems:
    """The records that a worker was given, as items."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        self.parser: ItemParser | None = None

    @property
    def ended(self) -> bool:
        """Never: the worker ends with its process."""
        return False

    def put(self, parcels: Sequence[Parcel]) -> None:
        """Add records."""
        for parcel in parcels:
            self._queue.put(parcel)

    def take(self, *, wait: bool) -> BatchItem | None:
        """Return the next item; None if there is none now, with `wait` after a moment."""
        assert self.parser is not None
        try:
            parcel = self._queue.get(block=wait, timeout=_MOMENT if wait else None)
        except queue.Empty:
            return None
        record = unpack(parcel)
        return self.parser.parse(record.data, record.index)


class Silence:
    """Hears what goes on while a model is loaded, for nobody."""

    watched: Final = False

    def note(self, text: str) -> None:
        """Receive a note."""

    def stage(self, text: str) -> None:
        """Receive a stage."""

    def pause(self) -> None:
        """Nothing is drawn."""
