"""Shows the scores of a text: as coloured text, as one line per token, or as one record."""

import codecs
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gpt2cli.loading import LoadedModel
from gpt2cli.records import describe_model, describe_token
from gpt2cli.scoring import CompactScores, TokenScore, Totals
from gpt2cli.spelling import format_in_parts, quote_piece
from gpt2cli.terminal.result import ResultWriter

Spell = Callable[[int], bytes]  # a token's id -> its bytes, special tokens by name

# Least probability -> how text of it looks (ECMA-48 SGR). Grounds, not letters: spaces show too.
_LEVELS: Final = ((0.5, ""), (0.1, "30;42"), (0.01, "30;43"), (0.001, "30;45"), (0.0, "97;41"))


@dataclass(slots=True)
class ScoredText:
    """A text's scores, some at a time as they are made; its totals hold when all were taken."""

    index: int
    name: str | None  # of its file, if it has one
    scores: Iterator[list[TokenScore]] = field(default_factory=lambda: iter(()))
    totals: Totals = field(default_factory=Totals)


def show_lines(text: ScoredText, writer: ResultWriter, spell: Spell) -> None:
    """Write a line per token: its logprob and the token, then the same of each alternative.

    A last line tells the perplexity, the number of scored tokens, and the file. Tabs between.
    """
    for some in text.scores:
        writer.write("".join(_format_line(score, spell) for score in some))
    fields = ["perplexity", _format_perplexity(text.totals), str(text.totals.scored_tokens)]
    if text.name is not None:
        fields.append(_in_one_line(text.name))
    writer.write("\t".join(fields) + "\n")


def _format_line(score: TokenScore, spell: Spell) -> str:
    fields = ["-" if score.logprob is None else f"{score.logprob:.6f}"]
    fields.append(quote_piece(spell(score.token_id)))
    for other in score.alternatives:
        fields += [f"{other.logprob:.6f}", quote_piece(spell(other.token_id))]
    return "\t".join(fields) + "\n"


def show_coloured(text: ScoredText, writer: ResultWriter, spell: Spell) -> None:
    """Write the text itself, on a ground that tells each token's probability, and a legend.

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
    writer.write(f"perplexity {_format_perplexity(text.totals)} ({told})\nprobability ")
    for least, style in _LEVELS:
        told = f" ≥ {least:.4g} " if least else f" < {_LEVELS[-2][0]:.4g} "
        writer.write_styled(told, style)
    writer.write("\n")


def _colour(scores: Iterator[list[TokenScore]], spell: Spell) -> Iterator[tuple[str, str]]:
    """Yield whole characters, each with its style.

    A character of several tokens is as likely as the least likely of them.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    least = 0.0  # the least logprob of the tokens of the character that is unfinished
    for some in scores:
        for score in some:
            least = min(least, 0.0 if score.logprob is None else score.logprob)
            if piece := decoder.decode(spell(score.token_id)):
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
        for score in some:
            tokens.add(score)
    perplexity = text.totals.perplexity
    record = {
        "index": text.index,
        "file": text.name,
        "perplexity": None if perplexity == math.inf else perplexity,  # which JSON lacks
        "total_logprob": text.totals.total_logprob,
        "scored_tokens": text.totals.scored_tokens,
        "tokens": (describe_token(score, model.tokenizer) for score in tokens),
        "stride": stride,
        **describe_model(model),
    }
    for part in format_in_parts(record):
        writer.write(part)


def _format_perplexity(totals: Totals) -> str:
    """Return the perplexity with six digits; `-` where there is none."""
    return "-" if totals.perplexity is None else f"{totals.perplexity:.6g}"


def _in_one_line(name: str) -> str:
    """Return a file's name as it is, unless it would break the line or the columns."""
    quoted = quote_piece(name.encode("utf-8", "surrogateescape"))
    return name if quoted == f'"{name}"' else quoted
