"""The coloured text as a page: one file that needs nothing else, with the alternatives in it.

A text may try to be HTML, to control a terminal or to reverse what follows: it stays text. Nothing
is loaded from anywhere: the policy allows this style and this script alone, by their digests.
"""

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Final, Self

from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.score.views import (
    LEVELS,
    ScoredText,
    Spell,
    describe_totals,
    find_level,
    find_pieces,
    in_one_line,
)
from gpt2cli.spelling import quote_piece
from gpt2cli.terminal.notes import make_safe
from gpt2cli.terminal.result import ResultWriter

_LEAST_PERCENT: Final = 0.0001
ALTERNATIVES: Final = 5  # of each token, unless --top says otherwise


class Page:
    """Writes a page, text by text; as a context manager it is a whole page however it ends."""

    def __init__(self, writer: ResultWriter, spell: Spell, conditions: str) -> None:
        """`conditions`: the model and what it ran on."""
        self._writer = writer
        self._spell = spell
        self._conditions = conditions

    def __enter__(self) -> Self:
        self._writer.write(_make_head(self._conditions))
        return self

    def show(self, text: ScoredText) -> None:
        """Write a text as it is scored, and its totals."""
        if text.name is not None:
            self._writer.write(f"<h2>{_escape(in_one_line(text.name))}</h2>\n")
        self._writer.write('<div class="text" dir="auto">')
        try:
            for piece, tokens in find_pieces(text.scores, self._spell):
                self._writer.write(_format_piece(piece, tokens, self._spell))
        finally:
            self._writer.write("</div>\n")
        self._writer.write(f"<p>{describe_totals(text.totals)}</p>\n")

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is None or not issubclass(raised[0], BrokenPipeError):
            self._writer.write(f"<script>{_read('page.js')}</script>\n</body>\n</html>\n")


def _make_head(conditions: str) -> str:
    style, script = _read("page.css"), _read("page.js")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    return f"""<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>gpt2 score</title>
<style>{style}</style>
</head>
<body>
<h1>How likely each token is</h1>
<p>{_escape(make_safe(conditions))}</p>
<p class="legend">probability {"".join(_format_legend())}</p>
<p>Point at a token, or go to it with Tab and the arrow keys, to see the likeliest ones there.</p>
"""


def _format_legend() -> Iterator[str]:
    for number, level in enumerate(LEVELS):
        yield f'<span class="p{number}">{_escape(level.words)}</span>'


def _format_piece(piece: str, tokens: Sequence[TokenLogprob], spell: Spell) -> str:
    """Return whole characters of the text in their colour, with what is told of their tokens."""
    level = find_level(tokens)
    kinds = [f"p{level}"] if level else []
    if not piece.strip("\n"):
        kinds.append("end")
    named = f' class="{" ".join(kinds)}"' if kinds else ""
    told = _escape("\n".join(_describe(tokens, spell))).replace("\n", "&#10;")
    return f'<span{named} tabindex="0" title="{told}">{_escape(make_safe(piece))}</span>'


def _describe(tokens: Sequence[TokenLogprob], spell: Spell) -> Iterator[str]:
    """Yield a line for each token, and after an empty one those for its alternatives."""
    for token in tokens:
        yield _describe_one(token.token_id, token.logprob, spell)
        if token.alternatives:
            yield ""
        for other in token.alternatives:
            yield _describe_one(other.token_id, other.logprob, spell)


def _describe_one(token_id: int, logprob: float | None, spell: Spell) -> str:
    return f"{make_safe(quote_piece(spell(token_id)))}\t{_format_probability(logprob)}"


def _format_probability(logprob: float | None) -> str:
    if logprob is None:
        return "no probability"
    percent = 100 * math.exp(logprob)
    return f"{percent:.3g} %" if percent >= _LEAST_PERCENT else f"< {_LEAST_PERCENT:.4f} %"


def _escape(text: str) -> str:
    return escape(text, quote=True)


def _digest(text: str) -> str:
    """Return the source of a policy that allows this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
