"""Runs a portable graph by plain `session.run` against the NumPy oracle, at every position.

Without a past and with one, row by row and as a batch with padding on either side: as the programs
that it is for run it. Weights and tolerances are those of `export.check`.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from export.check import Expectation, draw_texts
from export.config import GPT2Config
from export.graph_runner import open_session, run_graph
from export.storage import Precision
from export.weights import Weights

Array = NDArray[Any]
Side = Literal["left", "right"]
Cut = Callable[[int], Sequence[int]]  # a text's length -> where it is cut, from 0 to that length

_PADDED: Final[Sequence[Side]] = ("left", "right")
# In one piece; a past; and two single tokens at the end, as texts are generated.
_CUTS: Final[Sequence[Cut]] = (
    lambda length: [],
    lambda length: [length // 2],
    lambda length: [max(0, length - 2), max(0, length - 1)],
)


@np.errstate(over="ignore", invalid="ignore")  # compare tells what is not finite
def check_portable(
    graph: Path,
    config: GPT2Config,
    weights: Weights,
    *,
    precision: Precision = Precision.FP32,
    full: bool = False,
    report: Callable[[str], None] = lambda stage: None,
) -> None:
    """Check every position of two short texts, or of more, one of them as long as can be.

    Raises:
        CheckError: with the largest difference found.
    """
    limit = config.n_positions
    lengths = [min(n, limit) for n in ((1, 2, 9, 33) if full else (6, 4))]
    short = [_expect(config, weights, text, precision) for text in draw_texts(config, lengths)]
    whole = [
        _expect(config, weights, text, precision)
        for text in draw_texts(config, [limit] if full else [])
    ]
    session = open_session(graph)
    for rows in filter(None, (short, whole)):
        report(f"checking {graph.name} at all positions of texts of up to {max_length(rows)}")
        for cut in _CUTS:
            for row in rows:
                PortableRunner(session, config, [row]).check(cut)
            for side in _PADDED:
                PortableRunner(session, config, rows, padding=side).check(cut)


def _expect(
    config: GPT2Config, weights: Weights, text: Sequence[int], precision: Precision
) -> Expectation:
    return Expectation(config, weights, text, range(len(text)), precision=precision)


def max_length(rows: Sequence[Expectation]) -> int:
    """Return how many tokens the longest text has."""
    return max(len(row.text) for row in rows)


class PortableRunner:
    """A portable graph, and what it has computed of some texts side by side."""

    def __init__(
        self,
        session: Any,
        config: GPT2Config,
        rows: Sequence[Expectation],
        *,
        padding: Side | None = None,
    ) -> None:
        self._session = session
        self._rows = rows
        self._padding = padding
        self._names = [output.name for output in session.get_outputs()]
        types = {value.name: value.type for value in session.get_inputs()}
        half = types["past_key_values.0.key"] == "tensor(float16)"
        shape = (len(rows), config.n_head, 0, config.head_dim)
        self._past = {
            name: np.zeros(shape, np.float16 if half else np.float32)  # [B, H, P, D]
            for name in types
            if name.startswith("past_key_values.")
        }
        self._mask = np.zeros((len(rows), 0), np.int64)  # [B, P]

    def check(self, cut: Cut) -> None:
        """Feed all texts, each in pieces of its own, and compare all logits."""
        edges = [[0, *cut(len(row.text)), len(row.text)] for row in self._rows]
        for bounds in zip(*map(itertools.pairwise, edges), strict=True):
            self._feed(bounds)

    def _feed(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Feed the piece of each row between its bounds, padded by one more than it must be."""
        width = max(stop - start for start, stop in bounds) + (self._padding is not None)
        if not width:
            return
        ids, positions, mask = np.zeros((3, len(bounds), width), np.int64)  # [B, S] each
        places = [self._place(stop - start, width) for start, stop in bounds]
        for number, (row, (start, stop)) in enumerate(zip(self._rows, bounds, strict=True)):
            ids[number, places[number]] = row.text[start:stop]
            positions[number, places[number]] = range(start, stop)
            mask[number, places[number]] = 1
        logits = self._run(ids, positions, mask)
        for number, (row, (start, stop)) in enumerate(zip(self._rows, bounds, strict=True)):
            found = logits[number, places[number]]
            for position in range(start, stop):
                what = f"position {position} of {len(row.text)}, padded: {self._padding or 'no'}"
                row.compare(found[position - start], position, what)

    def _place(self, length: int, width: int) -> slice:
        return slice(width - length, width) if self._padding == "left" else slice(length)

    def _run(self, ids: Array, positions: Array, mask: Array) -> Array:
        self._mask = np.concatenate([self._mask, mask], axis=1)
        feeds = {"input_ids": ids, "position_ids": positions, "attention_mask": self._mask}
        found = run_graph(self._session, self._names, feeds | self._past)
        for name in self._past:
            self._past[name] = found[name.replace("past_key_values", "present")]
        return found["logits"]
