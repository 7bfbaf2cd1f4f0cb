"""How scored texts are shown: lines of tokens, the text itself in colours, or records."""

import codecs
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpt2cli.loading import LoadedModel
from gpt2cli.records import describe_model, describe_token
from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.scoring import CompactScores, Totals
from gpt2cli.spelling import format_in_parts, quote_piece
from gpt2cli.terminal.result import ResultWriter

Spell = Callable[[int], bytes]  # a token's id -> its bytes, special tokens by name


class Level(NamedTuple):
    """A step of probability."""

    least: float
    words: str
    style: str  # on a terminal (ECMA-48 SGR): background colours, so that spaces show too


LEVELS: Final = (
    Level(0.5, "≥ 0.5", ""),
    Level(0.1, "≥ 0.1", "30;42"),
    Level(0.01, "≥ 0.01", "30;43"),
    Level(0.001, "≥ 0.001", "30;45"),
    Level(0.0, "< 0.001", "97;41"),
)


@dataclass(slots=True)
class ScoredText:
    """A text's scores, some at a time as they are made; its totals hold when all were taken."""

    index: int
    name: str | None  # of its file, if it has one
    scores: Iterator[list[TokenLogprob]] = field(default_factory=lambda: iter(()))
    totals: Totals = field(default_factory=Totals)


def show_lines(text: ScoredText, writer: ResultWriter, spell: Spell) -> None:
    """Write a line per token: its logprob and the token, then the same of each alternative.

    A last line tells the perplexity, the number of scored tokens, and the file. Tabs between.
    """
    for some in text.scores:
        writer.write("".join(_format_line(token, spell) for token in some))
    fields = ["perplexity", format_perplexity(text.totals), str(text.totals.scored_tokens)]
    if text.name is not None:
        fields.append(in_one_line(text.name))
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
        writer.write_prompt(in_one_line(text.name))
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
    writer.write(f"{describe_totals(text.totals)}\nprobability ")
    for level in LEVELS:
        writer.write_styled(f" {level.words} ", level.style)
    writer.write("\n")


def _colour(scores: Iterator[list[TokenLogprob]], spell: Spell) -> Iterator[tuple[str, str]]:
    """Yield whole characters, each with its style."""
    for piece, tokens in find_pieces(scores, spell):
        yield piece, LEVELS[find_level(tokens)].style


def find_pieces(
    scores: Iterator[list[TokenLogprob]], spell: Spell
) -> Iterator[tuple[str, Sequence[TokenLogprob]]]:
    """Yield whole characters, each with the tokens that they have bytes of."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    tokens: list[TokenLogprob] = []  # of the character that is unfinished
    for some in scores:
        for token in some:
            tokens.append(token)
            if piece := decoder.decode(spell(token.token_id)):
                yield piece, tokens
                tokens = [token]
            if not decoder.getstate()[0]:  # the next token begins a character
                tokens = []
    if piece := decoder.decode(b"", final=True):
        yield piece, tokens


def find_level(tokens: Sequence[TokenLogprob]) -> int:
    """Return the level of a character: it is as likely as the least likely of its tokens."""
    logprobs = (0.0 if token.logprob is None else token.logprob for token in tokens)
    least = math.exp(min(logprobs))
    return next(number for number, level in enumerate(LEVELS) if least >= level.least)


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


def describe_totals(totals: Totals) -> str:
    """Return a text's perplexity, and of how many tokens it is."""
    count = totals.scored_tokens
    return f"perplexity {format_perplexity(totals)} ({count} token{'' if count == 1 else 's'})"


def format_perplexity(totals: Totals) -> str:
    """Return the perplexity with six digits; `-` where there is none."""
    return "-" if totals.perplexity is None else f"{totals.perplexity:.6g}"


def in_one_line(name: str) -> str:
    """Return a file's name as it is, unless it would break the line or the columns."""
    quoted = quote_piece(name.encode("utf-8", "surrogateescape"))
    return name if quoted == f'"{name}"' else quoted
