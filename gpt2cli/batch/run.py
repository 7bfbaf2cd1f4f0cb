"""Runs a batch: opens its input, model and output, and writes each result as it comes."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpt2cli.batch.config import InputOutput
from gpt2cli.batch.items import ItemParser
from gpt2cli.batch.lines import make_line
from gpt2cli.batch.results import BatchRun
from gpt2cli.config import BeamConfig, DraftConfig, ModelConfig, ReportConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.generation.interfaces import Counts
from gpt2cli.loading import LoadedModel
from gpt2cli.prompt_options import look_up_texts
from gpt2cli.records import describe_versions
from gpt2cli.resumable.entries import Ending
from gpt2cli.resumable.files import find_resumable, find_size, open_input
from gpt2cli.resumable.header import make_header
from gpt2cli.resumable.input import InputReader, ItemSource
from gpt2cli.resumable.journal import Journal, open_journal, read_header
from gpt2cli.resumable.shards import ShardPicker
from gpt2cli.resumable.view import RunView
from gpt2cli.sampling.random import draw_seed
from gpt2cli.settings import Settings
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import open_result
from gpt2cli.terminal.statistics import describe_run
from gpt2cli.text_input import find_stdin

_EXAMPLE: Final = "cat prompts.txt | gpt2 batch"


def run_batch(file: str | None, settings: Settings, io: InputOutput) -> int:
    """Complete the prompts of a file, or of stdin; return the exit code.

    Raises:
        Gpt2Error: whatever is wrong with input, model or output, or with what is to be resumed.
    """
    report = settings.make(ReportConfig)
    with Notes(quiet=report.quiet) as notes:
        descriptor = open_input(file, stdin=find_stdin(), what="prompts", example=_EXAMPLE)
        jsonl = io.jsonl or (file or "").endswith(".jsonl")
        batch = _open_batch(descriptor, settings, io, notes, jsonl=jsonl)
        counts = Counts()
        interrupted = _run(batch, counts)
        code = batch.view.end(interrupted=interrupted)
        if interrupted is False:
            lines = describe_run(batch.model, counts, seed=batch.seed, from_model=batch.from_model)
            size = f"batch size {batch.model.engine.max_slots}"
            notes.tell_run([size, *lines], shown=report.stats)
    return code


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch whose model is loaded and whose output is open."""

    model: LoadedModel
    view: RunView
    seed: int
    from_model: Mapping[str, Any]  # settings that are the model's own
    picker: ShardPicker | None  # of the shard that runs, if it is one

    @property
    def journal(self) -> Journal | None:
        """The output, if the run can be resumed."""
        return self.view.output if isinstance(self.view.output, Journal) else None


def _open_batch(
    descriptor: int, settings: Settings, io: InputOutput, notes: Notes, *, jsonl: bool
) -> _Batch:
    path = find_resumable(descriptor, io.output, resume=io.resume)
    before = read_header(path) if path is not None and io.resume else None
    seed = settings.values["seed"]
    if seed is None:
        seed = draw_seed() if before is None else before["seed"]
    beams = settings.make(BeamConfig).beams
    model = load_with_draft(
        settings.make(ModelConfig),
        settings.make(DraftConfig),
        max_slots=io.batch_size,
        min_slots=beams,
        listener=notes,
    )
    own = settings.with_model(model.stored.folder.generation_config)
    look_up_texts(own, model.tokenizer, model.engine.shape)
    notes.pause()
    parser = ItemParser(
        settings=own,
        tokenizer=model.tokenizer,
        shape=model.engine.shape,
        run_seed=seed,
        jsonl=jsonl,
        most_beams=model.engine.slot_limit,
        extra_fields=io.extra_fields,
    )
    terminator = b"\0" if io.null else b"\n"
    picker = None if io.shard is None else ShardPicker(io.own_shard, parser.is_blank)
    reader = InputReader(descriptor, terminator=terminator, wants=picker or (lambda record: True))
    items = ItemSource(reader, parser, io.own_shard)
    header = make_header(
        settings,
        model.stored,
        seed,
        own.from_model,
        jsonl=jsonl,
        device=str(model.engine.device),
        versions=describe_versions(model),
    )
    output = open_result(io.output) if path is None else open_journal(path, before, header, items)
    on_screen = path is None and sys.stdout is not None and sys.stdout.isatty()
    bar = Bar(notes, find_size(descriptor), hidden=on_screen)  # records are progress enough there
    view = RunView(items, output, notes, bar, io.as_text)
    return _Batch(model, view, seed, own.from_model, picker)


def _run(batch: _Batch, counts: Counts) -> bool | None:
    """Run to the end; return whether Ctrl-C ended it, None: the reader of a pipe has gone."""
    view, model = batch.view, batch.model
    output = view.output
    with output, ctrl_c_as_flag() as pressed, view.bar:
        view.show_progress()
        run = BatchRun(
            view.items,
            lambda result: view.show(make_line(result, model, as_text=view.as_text)),
            slots=model.engine.max_slots,
            interrupted=lambda: pressed() or output.is_abandoned(),
        )
        run.run(
            model.engine,
            model.tokenizer,
            model.sampler,
            counts=counts,
            drafting=model.drafting,
        )
        abandoned = output.is_abandoned()
        if batch.picker is not None and batch.journal is not None and not pressed():
            batch.journal.finish(Ending(batch.picker.records, batch.picker.digest))
    return None if abandoned and not pressed() else pressed()
