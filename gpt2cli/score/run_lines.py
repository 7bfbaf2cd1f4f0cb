"""Scores each line of a file or of stdin: opens input, model and output, and writes as it goes."""

import sys
from dataclasses import dataclass
from typing import Final

from gpt2cli.config import ModelConfig, ReportConfig, ScoringConfig, TextConfig
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.records import describe_versions
from gpt2cli.resumable.files import find_resumable, find_size, open_input
from gpt2cli.resumable.header import make_header
from gpt2cli.resumable.input import InputReader, ItemSource, Line
from gpt2cli.resumable.journal import open_journal, read_header
from gpt2cli.resumable.view import RunView
from gpt2cli.score.config import InputOutput
from gpt2cli.score.lines import LineItem, LineParser, LineScorer, ScoredLine
from gpt2cli.score.views import format_perplexity, make_record
from gpt2cli.scoring import choose_stride
from gpt2cli.settings import Settings
from gpt2cli.spelling import format_in_parts
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import open_result
from gpt2cli.terminal.statistics import describe_conditions, describe_memory
from gpt2cli.text_input import find_stdin

_EXAMPLE: Final = "gpt2 score --lines -f sentences.txt"


def run_lines(settings: Settings, io: InputOutput) -> int:
    """Score the lines of the file, or of stdin; return the exit code.

    Raises:
        Gpt2Error: whatever is wrong with input, model or output, or with what is to be resumed.
    """
    report = settings.make(ReportConfig)
    with Notes(quiet=report.quiet) as notes:
        file = str(io.file[0]) if io.file else None
        descriptor = open_input(file, stdin=find_stdin(), what="lines", example=_EXAMPLE)
        scoring = _open(descriptor, settings, io, notes)
        interrupted = _run(scoring)
        code = scoring.view.end(interrupted=interrupted)
        if report.stats and interrupted is False:
            notes.report("\n".join([describe_conditions(scoring.model), *describe_memory()]))
    return code


@dataclass(frozen=True, slots=True)
class _Scoring:
    """A run whose model is loaded and whose output is open."""

    model: LoadedModel
    view: RunView
    items: ItemSource[LineItem]
    scorer: LineScorer
    json: bool


def _open(descriptor: int, settings: Settings, io: InputOutput, notes: Notes) -> _Scoring:
    path = find_resumable(descriptor, io.output, resume=io.resume)
    before = read_header(path) if path is not None and io.resume else None
    model = load_model(settings.make(ModelConfig), max_slots=1, listener=notes)
    how = settings.make(ScoringConfig)
    stride = choose_stride(how.stride, model.engine.shape.n_positions)
    notes.pause()
    special = settings.make(TextConfig).allow_special
    parser = LineParser(tokenizer=model.tokenizer, allow_special=special)
    items = ItemSource(InputReader(descriptor), parser)
    header = make_header(
        settings,
        model.stored,
        None,
        {},
        device=str(model.engine.device),
        versions=describe_versions(model),
    )
    output = open_result(io.output) if path is None else open_journal(path, before, header, items)
    on_screen = path is None and sys.stdout is not None and sys.stdout.isatty()
    bar = Bar(notes, find_size(descriptor), hidden=on_screen)  # results are progress enough there
    scorer = LineScorer(
        engine=model.engine,
        bos_token_id=model.tokenizer.context_id,
        stride=stride,
        top=how.top,
        keeps_tokens=io.json,
    )
    view = RunView(items, output, notes, bar, as_text=not io.json)
    return _Scoring(model, view, items, scorer, io.json)


def _run(scoring: _Scoring) -> bool | None:
    """Run to the end; return whether Ctrl-C ended it, None: the reader of a pipe has gone."""
    view, output = scoring.view, scoring.view.output

    def show(line: ScoredLine) -> None:
        view.show(make_line(line, scoring.model, stride=scoring.scorer.stride, json=scoring.json))

    with output, ctrl_c_as_flag() as pressed, view.bar:
        view.show_progress()
        scoring.scorer.run(scoring.items, show, lambda: pressed() or output.is_abandoned())
        abandoned = output.is_abandoned()
    return None if abandoned and not pressed() else pressed()


def make_line(line: ScoredLine, model: LoadedModel, *, stride: int, json: bool) -> Line:
    """Return what is written for a line that is scored, or for its error."""
    item = line.item
    text = _format_record(line, model, stride) if json else _format_text(line)
    return Line(item.index, 0, item.digest, text, item.error, tokens=line.totals.scored_tokens)


def _format_text(line: ScoredLine) -> str:
    """Return the sums of a line; of an error an empty line."""
    if line.item.error is not None:
        return "\n"
    totals = line.totals
    return f"{totals.total_logprob:.6f}\t{format_perplexity(totals)}\t{totals.scored_tokens}\n"


def _format_record(line: ScoredLine, model: LoadedModel, stride: int) -> str:
    about = {"index": line.item.index, "text": line.item.text}
    record = make_record(about, line.totals, line.tokens, model, stride=stride)
    if line.item.error is not None:
        record |= {"total_logprob": None, "error": line.item.error}
    return "".join(format_in_parts(record))
