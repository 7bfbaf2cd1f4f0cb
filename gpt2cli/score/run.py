"""Scores texts: loads the model, and shows the scores of each text as they are made."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Final

import typer

from gpt2cli.config import ModelConfig, ReportConfig, ScoringConfig, TextConfig
from gpt2cli.errors import ExitCode
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.score.config import InputOutput
from gpt2cli.score.page import ALTERNATIVES, Page
from gpt2cli.score.views import ScoredText, show_coloured, show_lines, show_record
from gpt2cli.scoring import Totals, choose_stride, score
from gpt2cli.settings import Settings
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_conditions, describe_memory
from gpt2cli.text_input import NamedText

_PATIENCE_SECONDS: Final = 1.0  # before a bar is shown


class _Stopped(Exception):  # noqa: N818 - it is no error
    """Ends the view of a text whose scoring was interrupted."""


def run(
    texts: Sequence[NamedText],
    settings: Settings,
    io: InputOutput,
    notes: Notes,
    writer: ResultWriter,
) -> None:
    """Score all texts, until Ctrl-C or until nobody reads any more.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or a text.
        Exit: if it ended early; what was scored until then has been shown.
    """
    model = load_model(settings.make(ModelConfig), max_slots=1, listener=notes)
    how = settings.make(ScoringConfig)
    stride = choose_stride(how.stride, model.engine.shape.n_positions)
    top = ALTERNATIVES if io.html and "top" not in settings.given else how.top
    encode, special = model.tokenizer.encode_long, settings.make(TextConfig).allow_special
    ids = [encode(text.text, allow_special=special, begins=True) for text in texts]
    total = sum(map(len, ids))
    notes.pause()
    started = time.monotonic()
    hidden = writer.on_terminal and not io.json  # the text is progress enough
    bar = Bar(notes, total, hidden=hidden, patience=_PATIENCE_SECONDS)
    with ctrl_c_as_flag() as interrupted, bar:
        take = _make_scorer(model, stride, top, bar, lambda: interrupted() or writer.is_abandoned())
        try:
            with ExitStack() as page:  # which is ended before it gets its name
                show = _choose_view(io, model, writer, page, stride=stride, top=top)
                for index, text in enumerate(texts):
                    scored = ScoredText(index, text.name)
                    scored.scores = take(ids[index], scored.totals)
                    show(scored)
        except _Stopped:
            if interrupted():
                writer.keep(notes)
            raise typer.Exit(ExitCode.INTERRUPTED if interrupted() else ExitCode.DONE) from None
    seconds = max(time.monotonic() - started, 1e-9)
    told = f"scored {total} tokens in {seconds:.3f} s: {total / seconds:.1f} tokens/s"
    lines = [describe_conditions(model), told, *describe_memory()]
    notes.tell_run(lines, shown=settings.make(ReportConfig).stats)


def _choose_view(
    io: InputOutput,
    model: LoadedModel,
    writer: ResultWriter,
    page: ExitStack,
    *,
    stride: int,
    top: int,
) -> Callable[[ScoredText], None]:
    """Return what shows a text; `page` ends one that is begun."""
    spell = model.tokenizer.spell
    if io.html is not None:
        conditions = (
            f"{model.stored.title}, {model.stored.folder.precision} on {model.engine.device}"
        )
        return page.enter_context(Page(writer, spell, conditions)).show
    if io.json:
        return partial(show_record, writer=writer, model=model, stride=stride)
    show = show_coloured if writer.coloured and not top else show_lines
    return partial(show, writer=writer, spell=spell)


def _make_scorer(
    model: LoadedModel, stride: int, top: int, bar: Bar, stopped: Callable[[], bool]
) -> Callable[[Sequence[int], Totals], Iterator[list[TokenLogprob]]]:
    """Return what scores one text after the other, counts their tokens, and moves the bar.

    The bar is hidden once a text's last score was taken. If `stopped` says so, the scores raise
    _Stopped.
    """
    started, done = time.monotonic(), 0

    def take(ids: Sequence[int], totals: Totals) -> Iterator[list[TokenLogprob]]:
        nonlocal done
        bos = model.tokenizer.context_id
        try:
            with closing(
                score(model.engine, ids, bos_token_id=bos, stride=stride, top=top)
            ) as scores:
                for some in scores:
                    if stopped():
                        raise _Stopped
                    yield some
                    totals.add(some)
                    done += len(some)
                    rate = done / max(time.monotonic() - started, 1e-9)
                    bar.show(done, f"{done} tokens, {rate:.0f} tokens/s")
        finally:
            bar.pause()

    return take
