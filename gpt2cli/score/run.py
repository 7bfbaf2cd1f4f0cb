"""Scores texts: loads the model, and shows the scores of each text as they are made."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import typer

from gpt2cli import exit_codes
from gpt2cli.config import ModelConfig, ReportConfig, TextConfig
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.score.view import ScoredText, show_coloured, show_lines, show_record
from gpt2cli.scoring import TokenScore, choose_stride, score
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_conditions, describe_memory
from gpt2cli.text_input import NamedText

_PATIENCE_SECONDS = 1.0  # before a bar is shown


class _Stopped(Exception):  # noqa: N818 - it is no error
    """Ends the view of a text whose scores will not come."""


@dataclass(frozen=True, slots=True)
class ReadyTexts:
    """Texts whose model is loaded, and how they are to be scored."""

    model: LoadedModel
    names: Sequence[str | None]
    ids: Sequence[Sequence[int]]  # of each text
    stride: int
    top: int

    @property
    def total_tokens(self) -> int:
        """The number of tokens of all texts."""
        return sum(map(len, self.ids))


def run(
    texts: Sequence[NamedText],
    settings: Settings,
    *,
    stride: int | None,
    top: int,
    as_records: bool,
    notes: Notes,
    writer: ResultWriter,
) -> None:
    """Score all texts, until Ctrl-C or until nobody reads any more.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or a text.
        Exit: if it ended early; what was scored until then has been shown.
    """
    ready = get_ready(texts, settings, stride=stride, top=top, listener=notes)
    notes.pause()
    show = _choose_view(ready, writer, as_records=as_records)
    started = time.monotonic()
    hidden = writer.on_terminal and not as_records  # the text is progress enough
    bar = Bar(notes, ready.total_tokens, hidden=hidden, patience=_PATIENCE_SECONDS)
    with ctrl_c_as_flag() as interrupted, bar:
        stopped = lambda: interrupted() or writer.is_abandoned()  # noqa: E731
        try:
            for scored in score_texts(ready, bar, stopped):
                show(scored)
        except _Stopped:
            if interrupted():
                writer.keep(notes)
            raise typer.Exit(exit_codes.INTERRUPTED if interrupted() else exit_codes.DONE) from None
    if settings.make(ReportConfig).stats:
        seconds = max(time.monotonic() - started, 1e-9)
        _report(ready, seconds, notes)


def get_ready(
    texts: Sequence[NamedText],
    settings: Settings,
    *,
    stride: int | None,
    top: int,
    listener: Listener,
) -> ReadyTexts:
    """Load the model and encode the texts.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or a text.
    """
    model = load_model(settings.make(ModelConfig), max_slots=1, listener=listener)
    stride = choose_stride(stride, model.engine.shape.n_positions)
    encode, special = model.tokenizer.encode_long, settings.make(TextConfig).allow_special
    ids = [encode(text.text, allow_special=special, begins=True) for text in texts]
    return ReadyTexts(model, [text.name for text in texts], ids, stride, top)


def score_texts(ready: ReadyTexts, bar: Bar, stopped: Callable[[], bool]) -> Iterator[ScoredText]:
    """Yield each text with its scores, which are made while they are taken.

    The bar counts their tokens, and has made way once a text has been scored.

    Raises:
        _Stopped: from the scores, if `stopped`.
    """
    started, done = time.monotonic(), 0

    def take(scored: ScoredText, ids: Sequence[int]) -> Iterator[list[TokenScore]]:
        nonlocal done
        bos, engine = ready.model.tokenizer.context_id, ready.model.engine
        scores = score(engine, ids, bos_token_id=bos, stride=ready.stride, top=ready.top)
        try:
            with closing(scores):
                for some in scores:
                    if stopped():
                        raise _Stopped
                    yield some
                    scored.totals.add(some)
                    done += len(some)
                    rate = done / max(time.monotonic() - started, 1e-9)
                    bar.show(done, f"{done} tokens, {rate:.0f} tokens/s")
        finally:
            bar.pause()

    for index, (name, ids) in enumerate(zip(ready.names, ready.ids, strict=True)):
        scored = ScoredText(index, name)
        scored.scores = take(scored, ids)
        yield scored


def _choose_view(
    ready: ReadyTexts, writer: ResultWriter, *, as_records: bool
) -> Callable[[ScoredText], None]:
    if as_records:
        return lambda text: show_record(text, writer, model=ready.model, stride=ready.stride)
    show = show_coloured if writer.coloured and not ready.top else show_lines
    return lambda text: show(text, writer, ready.model.tokenizer.spell)


def _report(ready: ReadyTexts, seconds: float, notes: Notes) -> None:
    tokens = ready.total_tokens
    scored = f"scored {tokens} tokens in {seconds:.3f} s: {tokens / seconds:.1f} tokens/s"
    for line in (describe_conditions(ready.model), scored, *describe_memory()):
        notes.report(line)
