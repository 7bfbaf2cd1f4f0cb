"""Scores texts: loads the model, and shows the scores of each text as they are made."""

import codecs
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from gpt2cli.config import ModelConfig, ReportConfig, TextConfig
from gpt2cli.errors import ExitCode
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.records import describe_model, describe_token
from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.score.config import InputOutput, ScoringConfig
from gpt2cli.scoring import CompactScores, Totals, choose_stride, score
from gpt2cli.settings import Settings
from gpt2cli.spelling import format_in_parts, quote_piece
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_conditions, describe_memory
from gpt2cli.text_input import NamedText

Spell = Callable[[int], bytes]  # a token's id -> its bytes, special tokens by name

_PATIENCE_SECONDS: Final = 1.0  # before a bar is shown
# Least probability -> its style (ECMA-48 SGR). Background colours, so that spaces show too.
_LEVELS: Final = ((0.5, ""), (0.1, "30;42"), (0.01, "30;43"), (0.001, "30;45"), (0.0, "97;41"))


class _Stopped(Exception):  # noqa: N818 - it is no error
    """Ends the view of a text whose scoring was interrupted."""


@dataclass(slots=True)
class ScoredText:
    """A text's scores, some at a time as they are made; its totals hold when all were taken."""

    index: int
    name: str | None  # of its file, if it has one
    scores: Iterator[list[TokenLogprob]] = field(default_factory=lambda: iter(()))
    totals: Totals = field(default_factory=Totals)


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
    stride, top = choose_stride(how.stride, model.engine.shape.n_positions), how.top
    encode, special = model.tokenizer.encode_long, settings.make(TextConfig).allow_special
    ids = [encode(text.text, allow_special=special, begins=True) for text in texts]
    total = sum(map(len, ids))
    notes.pause()
    started = time.monotonic()
    hidden = writer.on_terminal and not io.json  # the text is progress enough
    bar = Bar(notes, total, hidden=hidden, patience=_PATIENCE_SECONDS)
    show = show_coloured if writer.coloured and not top else show_lines
    with ctrl_c_as_flag() as interrupted, bar:
        take = _make_scorer(model, stride, top, bar, lambda: interrupted() or writer.is_abandoned())
        try:
            for index, text in enumerate(texts):
                scored = ScoredText(index, text.name)
                scored.scores = take(ids[index], scored.totals)
                if io.json:
                    show_record(scored, writer, model=model, stride=stride)
                else:
                    show(scored, writer, model.tokenizer.spell)
        except _Stopped:
            if interrupted():
                writer.keep(notes)
            raise typer.Exit(ExitCode.INTERRUPTED if interrupted() else ExitCode.DONE) from None
    seconds = max(time.monotonic() - started, 1e-9)
    told = f"scored {total} tokens in {seconds:.3f} s: {total / seconds:.1f} tokens/s"
    lines = [describe_conditions(model), told, *describe_memory()]
    notes.tell_run(lines, shown=settings.make(ReportConfig).stats)


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


def show_lines(text: ScoredText, writer: ResultWriter, spell: Spell) -> None:
    """Write a line per token: its logprob and the token, then the same of each alternative.

    A last line tells the perplexity, the number of scored tokens, and the file. Tabs between.
    """
    for some in text.scores:
        writer.write("".join(_format_line(token, spell) for token in some))
    fields = ["perplexity", format_perplexity(text.totals), str(text.totals.scored_tokens)]
    if text.name is not None:
        fields.append(_in_one_line(text.name))
    writer.write("\t".join(fields) + "\n")


def _format_line(token: TokenLogprob, spell: Spell) -> str:
    fields = ["-" if token.logprob is None else f"{token.logprob:.6f}"]
    fields.append(quote_piece(spell(token.token_id)))
    for other in token.alternatives:
        fields += [f"{other.logprob:.6f}", quote_piece(spell(other.token_id))]
    return "\t".join(fields) + "\n"


def show_coloured(text: ScoredText, writer: ResultWriter, spell: Spell) -> None:
    """Write the text itself, with a background colour for each token's probability, and a legend.

    Files have their names above, and stand apart. However it ends, its last line is finished.
    """
    if text.index:
        writer.write("\n")
    if text.name is not None:
        writer.write_prompt(_in_one_line(text.name))
        writer.write("\n")
    open_ = False
    pieces = _colour(text.scores, spell)
    try:
        for piece, style in pieces:
            writer.write_styled(piece, style)
            open_ = not piece.endswith("\n")
    finally:
        if open_:
            writer.write("\n")
    count = text.totals.scored_tokens
    told = f"{count} token{'' if count == 1 else 's'}"
    writer.write(f"perplexity {format_perplexity(text.totals)} ({told})\nprobability ")
    for least, style in _LEVELS:
        told = f" ≥ {least:.4g} " if least else f" < {_LEVELS[-2][0]:.4g} "
        writer.write_styled(told, style)
    writer.write("\n")


def _colour(scores: Iterator[list[TokenLogprob]], spell: Spell) -> Iterator[tuple[str, str]]:
    """Yield whole characters, each with its style.

    A character of several tokens is as likely as the least likely of them.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    least = 0.0  # the least logprob of the tokens of the character that is unfinished
    for some in scores:
        for token in some:
            least = min(least, 0.0 if token.logprob is None else token.logprob)
            if piece := decoder.decode(spell(token.token_id)):
                yield piece, _choose_style(least)
            if not decoder.getstate()[0]:  # the next token begins a character
                least = 0.0
    if piece := decoder.decode(b"", final=True):
        yield piece, _choose_style(least)


def _choose_style(logprob: float) -> str:
    return next(style for least, style in _LEVELS if math.exp(logprob) >= least)


def show_record(text: ScoredText, writer: ResultWriter, *, model: LoadedModel, stride: int) -> None:
    """Write one JSON record, once the text is scored."""
    tokens = CompactScores()
    for some in text.scores:
        for token in some:
            tokens.add(token)
    about = {"index": text.index, "file": text.name}
    for part in format_in_parts(make_record(about, text.totals, tokens, model, stride=stride)):
        writer.write(part)


def make_record(
    about: Mapping[str, Any],
    totals: Totals,
    tokens: CompactScores,
    model: LoadedModel,
    *,
    stride: int,
) -> dict[str, Any]:
    """Return the record of a scored text, which begins with what it is `about`."""
    perplexity = totals.perplexity
    return {
        **about,
        "perplexity": None if perplexity == math.inf else perplexity,  # which JSON lacks
        "total_logprob": totals.total_logprob,
        "scored_tokens": totals.scored_tokens,
        "tokens": (describe_token(token, model.tokenizer) for token in tokens),
        "stride": stride,
        **describe_model(model),
    }


def format_perplexity(totals: Totals) -> str:
    """Return the perplexity with six digits; `-` where there is none."""
    return "-" if totals.perplexity is None else f"{totals.perplexity:.6g}"


def _in_one_line(name: str) -> str:
    """Return a file's name as it is, unless it would break the line or the columns."""
    quoted = quote_piece(name.encode("utf-8", "surrogateescape"))
    return name if quoted == f'"{name}"' else quoted
