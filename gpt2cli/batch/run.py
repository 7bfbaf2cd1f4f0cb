"""Runs a batch: opens its input, model and output, and writes each result as it comes."""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpt2cli.batch.cluster.config import ClusterConfig
from gpt2cli.batch.config import InputOutput
from gpt2cli.batch.here import open_here
from gpt2cli.batch.items import ItemParser, chat_of
from gpt2cli.batch.runner import Plan, Runner
from gpt2cli.config import ReportConfig
from gpt2cli.openai.asking import find_names
from gpt2cli.prompt_options import look_up_texts
from gpt2cli.resumable.entries import Ending
from gpt2cli.resumable.files import find_resumable, find_size, open_input
from gpt2cli.resumable.header import Header, make_header
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
        path = find_resumable(descriptor, io.output, resume=io.resume)
        before = read_header(path) if path is not None and io.resume else None
        jsonl = io.jsonl or (file or "").endswith(".jsonl")
        plan = Plan(settings=settings, io=io, seed=_choose_seed(settings, before), jsonl=jsonl)
        with _opened_runner(plan, notes) as runner:
            batch = _open_batch(runner, plan, descriptor, _Place(path, before), notes)
            interrupted = _run(batch)
            code = batch.view.end(interrupted=interrupted)
            if interrupted is False:
                lines = runner.describe(seed=plan.seed, from_model=batch.from_model)
                notes.tell_run(lines, shown=report.stats)
    return code


@dataclass(frozen=True, slots=True)
class _Place:
    """Where results go that can be resumed, if they can; and what was run into it before."""

    path: Path | None
    before: Header | None


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch whose model is loaded and whose output is open."""

    runner: Runner
    view: RunView
    from_model: Mapping[str, Any]  # settings that are the model's own
    picker: ShardPicker | None  # of the shard that runs, if it is one

    @property
    def journal(self) -> Journal | None:
        """The output, if the run can be resumed."""
        return self.view.output if isinstance(self.view.output, Journal) else None


def _choose_seed(settings: Settings, before: Header | None) -> int:
    seed = settings.values["seed"]
    if seed is None and before is not None:
        seed = before["seed"]  # None: another command's run, which is refused later on
    return draw_seed() if seed is None else int(seed)


def _opened_runner(plan: Plan, notes: Notes) -> AbstractContextManager[Runner]:
    config = plan.settings.make(ClusterConfig)
    if config.cluster is None:
        return nullcontext(open_here(plan, notes))
    from gpt2cli.batch.cluster.run import opened_cluster  # only where it is asked for

    return opened_cluster(plan, config, notes)


def _open_batch(runner: Runner, plan: Plan, descriptor: int, place: _Place, notes: Notes) -> _Batch:
    model, io = runner.conditions, plan.io
    shape = model.stored.folder.shape
    own = plan.settings.with_model(model.stored.folder.generation_config)
    look_up_texts(own, model.tokenizer, shape)
    notes.pause()
    parser = ItemParser(
        settings=own,
        tokenizer=model.tokenizer,
        shape=shape,
        run_seed=plan.seed,
        jsonl=plan.jsonl,
        most_beams=model.most_beams,
        extra_fields=io.extra_fields,
        model_names=find_names(plan.settings.values["model"], model.stored.name),
        as_text=io.as_text,
        open_chat=chat_of(model.stored.folder, notes.note),
    )
    terminator = b"\0" if io.null else b"\n"
    picker = None if io.shard is None else ShardPicker(io.own_shard, parser.is_blank)
    reader = InputReader(descriptor, terminator=terminator, wants=picker or (lambda record: True))
    items = ItemSource(reader, parser, io.own_shard)
    header = make_header(
        plan.settings,
        model.stored,
        plan.seed,
        own.from_model,
        jsonl=plan.jsonl,
        device=model.device,
        versions=model.versions,
        of_no_effect=[ClusterConfig],
    )
    path, before = place.path, place.before
    output = open_result(io.output) if path is None else open_journal(path, before, header, items)
    on_screen = path is None and sys.stdout is not None and sys.stdout.isatty()
    bar = Bar(notes, find_size(descriptor), hidden=on_screen)  # records are progress enough there
    view = RunView(items, output, notes, bar, io.as_text, runner.tell_progress)
    return _Batch(runner, view, own.from_model, picker)


def _run(batch: _Batch) -> bool | None:
    """Run to the end; return whether Ctrl-C ended it, None: the reader of a pipe has gone."""
    view = batch.view
    output = view.output
    with output, ctrl_c_as_flag() as pressed, view.bar:
        view.show_progress()
        batch.runner.run(view.items, view.show, lambda: pressed() or output.is_abandoned())
        abandoned = output.is_abandoned()
        if batch.picker is not None and batch.journal is not None and not pressed():
            batch.journal.finish(Ending(batch.picker.records, batch.picker.digest))
    return None if abandoned and not pressed() else pressed()
