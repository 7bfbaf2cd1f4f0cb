"""Runs a written graph by plain `session.run` against the NumPy oracle.

Both have the same weights: those of the model folder, which `export.check_weights` holds against
the checkpoint's. So what the graph may differ by is what its arithmetic rounds, not its weights.

No model folder takes its name unchecked. The short check has two rows of different lengths,
prefilled one by one, then decoded together. The full one has more and longer rows, and a prompt of
all positions, in one piece and cut.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import Weights
from export.config import GPT2Config
from export.errors import CheckError
from export.graph_runner import CPU_PROVIDER, GraphRunner, open_session
from export.precision import Precision
from export.reference import Reference
from export.rounding import round_entering
from export.storage import STORAGES

Array = NDArray[Any]

# Largest difference allowed between two float32 forwards, as a share of the largest logit (at
# least 1). Random models of the 124M and the 1558M shape, with and without outlier channels, show
# 1.4e-5 over the short check's six positions, the trained starter 1e-6.
TOLERANCE: Final = 2e-4
# Where that is exceeded, the precision's own error counts: by how much its rounding moves the
# oracle's logits, times this. In float32 that is the difference from the float64 oracle; random
# models amplify it along a text: at the 1558M shape two right forwards of 1024 tokens differ by
# 1.3e-3. The others round what enters each matrix, to float16 or to whole numbers. Two right
# forwards do not round alike for long: one number on the other side of a half is soon many.
# Measured, starter and 124M with and without outliers: graph and oracle differ by up to 1.8 times
# the noise in float32, 1.9 in float16, 1.25 in int8 and int4, whose noise is 100 times as large.
NOISE_FACTORS: Final[Mapping[Precision, float]] = {
    Precision.FP32: 10.0,
    Precision.FP16: 10.0,
    Precision.INT8: 4.0,
    Precision.INT4: 4.0,
}

_CAPACITY_STEP: Final = 8


class Expectation:
    """What the oracle says of one text at the asked positions."""

    def __init__(
        self, config: GPT2Config, weights: Weights, text: Sequence[int], asked: Sequence[int]
    ) -> None:
        self.text = text
        self.asked = asked
        self._model = (config, weights)
        self._logits = Reference(*self._model, dtype=np.float32).logits(text, asked)  # [K, V]
        self._noises: dict[Precision, float] = {}

    def compare(
        self, found: Array, position: int, what: str, *, precision: Precision = Precision.FP32
    ) -> None:
        """Hold logits [V] found at one of the asked positions against the oracle's.

        Raises:
            CheckError: if they differ by more than arithmetic of the precision can.
        """
        expected = self._logits[self.asked.index(position)]
        if not np.isfinite(expected).all():
            raise CheckError(f"the checkpoint's own logits are not finite at {what}")
        difference = float(np.abs(found - expected).max())
        allowed = TOLERANCE * max(1.0, float(np.abs(expected).max()))
        if difference <= allowed:
            return
        allowed = max(allowed, NOISE_FACTORS[precision] * self._find_noise(precision))
        if not difference <= allowed:  # also when it is NaN
            raise CheckError(
                f"the exported graph is wrong at {what}: logits differ from the reference by "
                f"{difference:.2g} where {allowed:.2g} is allowed"
            )

    def _find_noise(self, precision: Precision) -> float:
        """Return by how much rounding moves the oracle's logits; costs another forward, once."""
        if precision not in self._noises:
            if precision is Precision.FP32:
                other = Reference(*self._model, dtype=np.float64)
            else:
                rounded = functools.partial(round_entering, storage=STORAGES[precision])
                other = Reference(*self._model, dtype=np.float32, rounded=rounded)
            moved = np.abs(self._logits - other.logits(self.text, self.asked))
            self._noises[precision] = float(moved.max())
        return self._noises[precision]


@np.errstate(over="ignore", invalid="ignore")  # compare tells what is not finite
def check_short(
    graphs: Sequence[Path],
    config: GPT2Config,
    weights: Weights,
    *,
    precision: Precision = Precision.FP32,
    provider: str = CPU_PROVIDER,
) -> None:
    """Check of each graph prefill, decode and two ragged rows over a handful of positions.

    Raises:
        CheckError: with the largest difference found.
    """
    longest = min(config.n_positions, 6)
    rows = _expect_rows(config, weights, [longest, max(1, longest - 2)])
    # Opened after the oracle is done: one of them in memory.
    for session, rounding in _open_sessions(graphs, precision, provider):
        _check_rows(session, config, rows, rounding, decoded=min(2, longest - 1))
        del session  # before the next one is opened


@np.errstate(over="ignore", invalid="ignore")
def check_full(
    graphs: Sequence[Path],
    config: GPT2Config,
    weights: Weights,
    *,
    precision: Precision = Precision.FP32,
    report: Callable[[str], None] = lambda stage: None,
) -> None:
    """Check of each graph ragged rows, split prefills and decode steps up to the last position.

    Raises:
        CheckError: with the largest difference found.
    """
    limit = config.n_positions
    lengths = sorted({1, min(2, limit), min(9, limit), min(33, limit)})
    rows = _expect_rows(config, weights, lengths)
    [text] = _draw_texts(config, [limit])
    asked = sorted({0, 1 % limit, limit // 3, limit // 2, max(0, limit - 2), limit - 1})
    whole = Expectation(config, weights, text, asked)
    for session, rounding in _open_sessions(graphs, precision, CPU_PROVIDER):
        report("checking ragged rows")
        _check_rows(session, config, rows, rounding, decoded=min(8, limit))
        report(f"checking all {limit} positions")
        for cuts in ([], [1], [limit // 3, limit // 2], [limit - 1], [limit - 2, limit - 1]):
            way = f"cut at {cuts}" if cuts else "in one piece"
            report(f"checking a prefill {way}")
            _check_cut(session, config, whole, rounding, sorted({c for c in cuts if 0 < c < limit}))
        del session


def _open_sessions(
    graphs: Sequence[Path], precision: Precision, provider: str
) -> Iterator[tuple[Any, Precision]]:
    """Yield the graphs' sessions, each with the precision of what it rounds.

    Where products are of whole numbers, that is first one that computes them in float32: from it
    any wrong operand shows, as it would not in the noise of the other.
    """
    for graph in graphs:
        if STORAGES[precision].matrices is not None and provider == CPU_PROVIDER:
            yield open_session(graph, exact=True), Precision.FP32
        yield open_session(graph, provider), precision


def _check_rows(
    session: Any,
    config: GPT2Config,
    rows: Sequence[Expectation],
    precision: Precision,
    *,
    decoded: int,
) -> None:
    """Prefill each row by itself, then decode the last `decoded` tokens of all rows together."""
    texts = [row.text for row in rows]
    capacity = -(-max(map(len, texts)) // _CAPACITY_STEP) * _CAPACITY_STEP
    runner = GraphRunner(session, config, rows=len(texts), capacity=capacity)
    starts = [max(0, len(text) - decoded) for text in texts]
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        if start:
            found = runner.run([row.text[:start]], [0], first_row=number)[0]
            for place in range(start):
                row.compare(found[place], place, f"prefill of row {number}", precision=precision)
    for step in range(decoded):
        places = [min(start + step, len(t) - 1) for start, t in zip(starts, texts, strict=True)]
        ids = [[text[place]] for text, place in zip(texts, places, strict=True)]
        found = runner.run(ids, places)[:, 0]
        for number, (row, place) in enumerate(zip(rows, places, strict=True)):
            what = f"decode step {step} of row {number}"
            row.compare(found[number], place, what, precision=precision)


def _check_cut(
    session: Any,
    config: GPT2Config,
    whole: Expectation,
    precision: Precision,
    cuts: Sequence[int],
) -> None:
    """Feed one text in the pieces between `cuts`."""
    limit = len(whole.text)
    runner = GraphRunner(session, config, rows=1, capacity=limit)
    for start, stop in itertools.pairwise([0, *cuts, limit]):
        positions = [position for position in whole.asked if start <= position < stop]
        places = [position - start for position in positions]  # all of them would be S·V numbers
        found = runner.run([whole.text[start:stop]], [start], asked=places)[0]  # [K, V]
        for position, logits in zip(positions, found, strict=True):
            whole.compare(logits, position, f"position {position}", precision=precision)


def _expect_rows(config: GPT2Config, weights: Weights, lengths: Sequence[int]) -> list[Expectation]:
    texts = _draw_texts(config, lengths)
    return [Expectation(config, weights, text, range(len(text))) for text in texts]


def _draw_texts(config: GPT2Config, lengths: Sequence[int]) -> list[list[int]]:
    """Return seeded ids spread over the whole vocabulary."""
    draw = np.random.Generator(np.random.Philox(0))
    return [draw.integers(0, config.vocab_size, length).tolist() for length in lengths]
