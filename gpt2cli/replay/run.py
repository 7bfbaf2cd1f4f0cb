"""Replays records: those of one model side by side, the results in the order of the input."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

from gpt2cli.config import ModelConfig, ReportConfig
from gpt2cli.errors import DeviceError, ExitCode, Gpt2Error
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import Loop
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.record_lines import format_record
from gpt2cli.recorded import prepare_again
from gpt2cli.records import describe_versions
from gpt2cli.replay.config import ReplayConfig
from gpt2cli.replay.reading import Recorded, read_records
from gpt2cli.replay.verdicts import Verdict, compare, describe_change
from gpt2cli.settings import Settings
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter, open_result

_FEW: Final = 8  # records, for which there is a slot each


def run_replay(text: str, settings: Settings) -> int:
    """Replay the records of a text; return the exit code.

    1: not all are the same. 130: Ctrl-C. 0 also where the reader of a pipe has gone.

    Raises:
        Gpt2Error: if there is no record, or the results cannot be written.
    """
    how = settings.make(ReplayConfig)
    records = read_records(text, index=how.index)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes, open_result(None) as writer:
        places = [record.place for record in records]
        view = View(writer, places, as_records=how.json)
        with ctrl_c_as_flag() as pressed:
            stopped = lambda: pressed() or writer.is_abandoned()  # noqa: E731
            for verdict in replay_all(records, settings, notes, stopped):
                view.show(verdict)
        if pressed():
            return ExitCode.INTERRUPTED
        if writer.is_abandoned():
            return ExitCode.DONE
        notes.note(view.summarise())
    return ExitCode.FAILED if view.differing or view.refused else ExitCode.DONE


@dataclass
class View:
    """Shows verdicts in the order of the input, each as soon as all before it are there."""

    writer: ResultWriter
    places: Sequence[int]  # of the records that will have a verdict
    as_records: bool
    same: int = 0
    differing: int = 0
    refused: int = 0
    _waiting: dict[int, Verdict] = field(default_factory=dict)
    _shown: int = 0

    def show(self, verdict: Verdict) -> None:
        """Take a verdict, and write those whose turn it is."""
        self._waiting[verdict.record.place] = verdict
        while self._shown < len(self.places) and self.places[self._shown] in self._waiting:
            shown = self._waiting.pop(self.places[self._shown])
            line = format_record(shown.as_record()) if self.as_records else f"{shown.as_line()}\n"
            self.writer.write(line)
            self._shown += 1
            self.same += shown.same is True
            self.differing += shown.same is False
            self.refused += shown.same is None

    def summarise(self) -> str:
        """Return all verdicts in one line."""
        others = f", {self.differing} differ" if self.differing else ""
        others += f", {self.refused} not compared" if self.refused else ""
        return f"{self._shown} record{'' if self._shown == 1 else 's'}: {self.same} same{others}"


def replay_all(
    records: Sequence[Recorded], settings: Settings, notes: Notes, stopped: Callable[[], bool]
) -> Iterator[Verdict]:
    """Yield a verdict for each record, model after model, until `stopped` says so."""
    groups: dict[ModelConfig, list[Recorded]] = defaultdict(list)
    for record in records:
        try:
            if record.request is not None:
                groups[_choose_model(record, settings)].append(record)
        except Gpt2Error as error:
            record = replace(record, request=None, refusal=str(error))
        if record.request is None:
            yield Verdict(record, same=None, reason=record.refusal)
    for config, group in groups.items():
        if not stopped():
            yield from _replay_group(config, group, notes, stopped)


def _choose_model(record: Recorded, settings: Settings) -> ModelConfig:
    values = settings.values
    chosen = record.choose_model(values["model"])
    return replace(chosen, threads=values["threads"], offline=values["offline"])


def _replay_group(
    config: ModelConfig, group: Sequence[Recorded], notes: Notes, stopped: Callable[[], bool]
) -> Iterator[Verdict]:
    requests = [record.request for record in group if record.request is not None]
    beams = max(request.search.beams for request in requests)
    slots = max(beams, len(group)) if len(group) <= _FEW else None
    try:
        model = load_model(config, max_slots=slots, min_slots=beams, verifying=True, listener=notes)
    except Gpt2Error as error:
        # What else could be done on another device would not be the record's.
        reason = f"{config.device}: {error.fault}" if isinstance(error, DeviceError) else str(error)
        for record in group:
            yield Verdict(record, same=None, reason=reason)
        return
    notes.pause()
    source = _Source(model)
    for record in group:
        refusal = find_difference(record, model) or source.add(record)
        if refusal:
            yield Verdict(record, same=None, reason=refusal)
    yield from _run(source, model, stopped)


def find_difference(record: Recorded, model: LoadedModel) -> str:
    """Return why the model cannot give the record's text; empty if it may."""
    fields, folder = record.fields, model.stored.folder
    if folder.precision != fields["precision"]:
        return f"it was made in {fields['precision']}, {model.stored.name} has {folder.precision}"
    if folder.fingerprint == fields["fingerprint"]:
        return ""
    changed = describe_change(fields["versions"], describe_versions(model))
    prints = f"their fingerprint is {folder.fingerprint}, not {fields['fingerprint']}"
    return f"{model.stored.name} has other weights: {prints}" + (changed and f" ({changed})")


@dataclass
class _Source:
    """Gives the samples of records to the loop."""

    model: LoadedModel
    waiting: deque[tuple[PreparedRequest, int]] = field(default_factory=deque)
    records: dict[int, Recorded] = field(default_factory=dict)  # by the index of their request

    @property
    def ended(self) -> bool:
        """Whether no sample will come any more."""
        return not self.waiting

    def add(self, record: Recorded) -> str:
        """Add a record; return why it cannot be run, if so."""
        assert record.request is not None
        tokenizer, shape = self.model.tokenizer, self.model.engine.shape
        try:
            prepared = prepare_again(record.request, record.context, tokenizer, shape)
        except Gpt2Error as error:
            return str(error)
        number = 0 if record.request.search.on else record.fields["sample"]
        self.waiting.append((prepared, number))
        self.records[record.request.index] = record
        return ""

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next sample; None at the end."""
        return self.waiting.popleft() if self.waiting else None


def _run(source: _Source, model: LoadedModel, stopped: Callable[[], bool]) -> Iterable[Verdict]:
    versions = describe_versions(model)
    pieces: dict[int, list[str]] = defaultdict(list)
    loop = Loop(model.engine, model.tokenizer, model.sampler, Counts(), stopped)
    with closing(loop.run(source)) as chunks:
        for chunk in chunks:
            record = source.records[chunk.index]
            if stopped():
                return
            if chunk.sample == record.fields["sample"]:
                pieces[chunk.index].append(chunk.text)
                if chunk.finish is not None:
                    yield compare(record, pieces.pop(chunk.index), chunk.finish, versions)
