"""Shows the scores of texts: as coloured text, as one line per token, or as one record per text."""

import codecs
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from gpt2cli.loading import LoadedModel
from gpt2cli.records import describe_model
from gpt2cli.scoring import CompactScores, TokenScore, Totals
from gpt2cli.spelling import describe_piece, format_in_parts, quote_piece
from gpt2cli.terminal.result import ResultWriter

PieceOf = Callable[[int], bytes]  # a token's id -> its bytes, special tokens by name

# Least probability -> how text of it looks (ECMA-48 SGR). Grounds, not letters: spaces show too.
_LEVELS: Final = ((0.5, ""), (0.1, "30;42"), (0.01, "30;43"), (0.001, "30;45"), (0.0, "97;41"))


class ScoreView(Protocol):
    """Takes the scores of one text after the other, in order, some at a time."""

    def begin(self, name: str | None) -> None:
        """Begin a text; `name` is that of its file, if it has one."""

    def add(self, scores: Sequence[TokenScore]) -> None:
        """Show what these scores add."""

    def stop(self) -> None:
        """Leave nothing half shown: no more scores of this text will come, however it ended."""

    def end(self, totals: Totals) -> None:
        """Show what the scores of a whole text come to, after `stop`."""


class LineView:
    """A line per token: its logprob and the token, then the same of each alternative.

    A last line tells the perplexity, the number of scored tokens, and the file. Tabs between.
    """

    def __init__(self, writer: ResultWriter, piece_of: PieceOf) -> None:
        self._writer = writer
        self._piece_of = piece_of
        self._name: str | None = None

    def begin(self, name: str | None) -> None:
        """Write nothing yet."""
        self._name = name

    def add(self, scores: Sequence[TokenScore]) -> None:
        """Write the lines of these tokens."""
        self._writer.write("".join(map(self._format, scores)))

    def end(self, totals: Totals) -> None:
        """Write the last line."""
        fields = ["perplexity", format_perplexity(totals), str(totals.scored_tokens)]
        if self._name is not None:
            fields.append(_in_one_line(self._name))
        self._writer.write("\t".join(fields) + "\n")

    def stop(self) -> None:
        """Write nothing: a line is whole, or is not."""

    def _format(self, score: TokenScore) -> str:
        logprob = "-" if score.logprob is None else f"{score.logprob:.6f}"
        fields = [logprob, quote_piece(self._piece_of(score.token_id))]
        for other in score.alternatives:
            fields += [f"{other.logprob:.6f}", quote_piece(self._piece_of(other.token_id))]
        return "\t".join(fields) + "\n"


class ColouredView:
    """The text itself, on a ground that tells each token's probability, and a legend.

    A character of several tokens is as likely as the least likely of them.
    """

    def __init__(self, writer: ResultWriter, piece_of: PieceOf) -> None:
        self._writer = writer
        self._piece_of = piece_of
        self._ended = False  # whether there is a text before this one
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._least = 0.0  # the least logprob of the tokens of the character that is unfinished
        self._open = False  # whether a line is unfinished

    def begin(self, name: str | None) -> None:
        """Write the file's name in bold, apart from the text before."""
        if self._ended:
            self._writer.write("\n")
        if name is not None:
            self._writer.write_prompt(_in_one_line(name))
            self._writer.write("\n")

    def add(self, scores: Sequence[TokenScore]) -> None:
        """Write the characters that these tokens complete."""
        for score in scores:
            self._least = min(self._least, 0.0 if score.logprob is None else score.logprob)
            self._write(self._decoder.decode(self._piece_of(score.token_id)))
            if not self._decoder.getstate()[0]:  # the next token begins a character
                self._least = 0.0

    def end(self, totals: Totals) -> None:
        """Write the perplexity, and the legend on a line of its own."""
        count = totals.scored_tokens
        told = f"{count} token{'' if count == 1 else 's'}"
        self._writer.write(f"perplexity {format_perplexity(totals)} ({told})\nprobability ")
        for least, style in _LEVELS:
            told = f" ≥ {least:.4g} " if least else f" < {_LEVELS[-2][0]:.4g} "
            self._writer.write_styled(told, style)
        self._writer.write("\n")
        self._ended = True

    def stop(self) -> None:
        """Finish the last character and the line."""
        self._write(self._decoder.decode(b"", final=True))
        self._least = 0.0
        if self._open:
            self._writer.write("\n")
            self._open = False

    def _write(self, text: str) -> None:
        if text:
            self._writer.write_styled(text, _choose_style(self._least))
            self._open = not text.endswith("\n")


class RecordView:
    """One JSON record per text, written when it is scored."""

    def __init__(self, writer: ResultWriter, *, model: LoadedModel, stride: int) -> None:
        self._writer = writer
        self._model = model
        self._stride = stride
        self._index = -1
        self._name: str | None = None
        self._tokens = CompactScores()

    def begin(self, name: str | None) -> None:
        """Write nothing yet."""
        self._index += 1
        self._name = name
        self._tokens = CompactScores()

    def add(self, scores: Sequence[TokenScore]) -> None:
        """Gather the tokens."""
        for score in scores:
            self._tokens.add(score)

    def end(self, totals: Totals) -> None:
        """Write the record."""
        perplexity = totals.perplexity
        record = {
            "index": self._index,
            "file": self._name,
            "perplexity": None if perplexity == math.inf else perplexity,  # which JSON lacks
            "total_logprob": totals.total_logprob,
            "scored_tokens": totals.scored_tokens,
            "tokens": map(self._describe, self._tokens),
            "stride": self._stride,
            **describe_model(self._model),
        }
        for part in format_in_parts(record):
            self._writer.write(part)

    def stop(self) -> None:
        """Write nothing: a record is whole, or is not."""

    def _describe(self, score: TokenScore) -> dict[str, Any]:
        described = self._describe_token(score.token_id, score.logprob)
        if score.alternatives:
            described["alternatives"] = [
                self._describe_token(other.token_id, other.logprob) for other in score.alternatives
            ]
        return described

    def _describe_token(self, token_id: int, logprob: float | None) -> dict[str, Any]:
        piece = self._model.tokenizer.spell(token_id)
        return {"id": token_id, **describe_piece(piece), "logprob": logprob}


def format_perplexity(totals: Totals) -> str:
    """Return the perplexity with six digits; `-` where there is none."""
    return "-" if totals.perplexity is None else f"{totals.perplexity:.6g}"


def _choose_style(logprob: float) -> str:
    return next(style for least, style in _LEVELS if math.exp(logprob) >= least)


def _in_one_line(name: str) -> str:
    """Return a file's name as it is, unless it would break the line or the columns."""
    quoted = quote_piece(name.encode("utf-8", "surrogateescape"))
    return name if quoted == f'"{name}"' else quoted
