"""Draws the chart and the tables of a benchmark: python -m tests.bench.chart [PEERS.json [OUT]].

Of the raw figures it makes peers.svg and peers.md beside them, or in the folder OUT.
"""

import json
import pathlib
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from tests.bench import summary
from tests.bench.variants import OURS, Variant

_RESULTS: Final = pathlib.Path(__file__).parent / "results" / "peers.json"
_DRAWN: Final = ("decode_1", "decode_8", "batch", "prefill_900")
_COLOURS: Final[Mapping[str, str]] = {
    OURS: "#1b6ca8",
    "transformers": "#c9a227",
    "ctranslate2": "#8d8d8d",
    "llama_cpp": "#5a9367",
}
# In pixels.
_WIDTH: Final = 720
_LABEL_WIDTH: Final = 190
_VALUE_WIDTH: Final = 90
_BAR: Final = 16
_STEP: Final = 22  # from a bar to the next
_GAP: Final = 14  # between classes
_TITLE: Final = 34
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:14px}"
    ".ours{font-weight:600}@media(prefers-color-scheme:dark){text{fill:#ddd}}"
)


def draw_chart(figures: summary.Figures, conditions: Sequence[str]) -> str:
    """Return an SVG: for each measure a bar per variant, by class, with least and most as a line.

    Bars of one measure have one scale; it begins at 0.
    """
    parts: list[str] = []
    top = 0.0
    for measure in _DRAWN:
        drawn, top = _draw_measure(figures, measure, top)
        parts += drawn
    for line in _wrap(conditions):
        top += _BAR
        parts.append(_text(0, top, line))
    height = top + _BAR
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" '
        f'width="{_WIDTH}" height="{height:g}" role="img">'
    )
    title = "<title>Speed of gpt2 beside other programs; more is better</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *parts, "</svg>\n"])


def _draw_measure(figures: summary.Figures, measure: str, top: float) -> tuple[list[str], float]:
    """Return the elements of one measure that begins at `top`, and where it ends."""
    top += _TITLE
    parts = [_text(0, top - _BAR / 2, summary.MEASURES[measure], kind="title")]
    most = max(max(measures[measure].rounds) for measures in figures.values())
    scale = (_WIDTH - _LABEL_WIDTH - _VALUE_WIDTH) / most
    classes = dict.fromkeys(variant.precision_class for variant in figures)
    for precision_class in classes:
        for variant, measures in figures.items():
            if variant.precision_class == precision_class:
                parts += _draw_bar(variant, measures[measure], top, scale)
                top += _STEP
        top += _GAP
    return parts, top


def _draw_bar(variant: Variant, values: summary.Values, top: float, scale: float) -> Iterator[str]:
    middle, baseline = top + _BAR / 2, top + _BAR - 4
    end = _LABEL_WIDTH + values.median * scale
    kind = "ours" if variant.program == OURS else ""
    yield _text(0, baseline, str(variant), kind=kind)
    yield (
        f'<rect x="{_LABEL_WIDTH}" y="{top:g}" width="{values.median * scale:.1f}" '
        f'height="{_BAR}" fill="{_COLOURS[variant.program]}"/>'
    )
    least, most = (_LABEL_WIDTH + end_ * scale for end_ in (min(values.rounds), max(values.rounds)))
    yield (
        f'<line x1="{least:.1f}" x2="{most:.1f}" y1="{middle:g}" y2="{middle:g}" '
        'stroke="#333" stroke-width="1.5"/>'
    )
    yield _text(max(end, most) + 6, baseline, f"{values.median:.0f}", kind=kind)


def _text(x: float, y: float, text: str, *, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:g}"{style}>{escape(text)}</text>'


def _wrap(lines: Sequence[str], width: int = 110) -> Iterator[str]:
    """Yield lines of at most about so many characters."""
    for line in lines:
        yield from textwrap.wrap(line, width)


def write_tables(raw: Mapping[str, Any], figures: summary.Figures) -> str:
    """Return markdown: the conditions, who agrees with whom, figures, ratios and bars."""
    parts = [
        "\n".join(f"- {line}" for line in summary.describe_conditions(raw)),
        "\n".join(f"- {line}" for line in summary.describe_agreement(raw)),
        summary.format_markdown(*summary.tabulate_figures(figures)),
        summary.format_markdown(*summary.tabulate_ratios(figures)),
        "\n".join(f"- {line}" for line in summary.judge_start(figures)),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def main(source: pathlib.Path = _RESULTS, out: pathlib.Path | None = None) -> None:
    """Read raw figures and write the chart and the tables."""
    raw = json.loads(source.read_text(encoding="utf-8"))
    figures = summary.gather(raw)
    folder = source.parent if out is None else out
    chart = draw_chart(figures, list(summary.describe_conditions(raw)))
    (folder / "peers.svg").write_text(chart, encoding="utf-8")
    (folder / "peers.md").write_text(write_tables(raw, figures), encoding="utf-8")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
