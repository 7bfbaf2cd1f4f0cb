"""Runs a written graph by plain `session.run` against the NumPy oracle.

Both have the same weights: in float32 the checkpoint's, else those that the model folder holds, as
far as the precision can tell them. So what the graph may differ by is what its arithmetic rounds.

No model folder takes its name unchecked. The short check has two rows of different lengths,
prefilled one by one, then decoded together. The full one has more and longer rows, and a prompt of
all positions, in one piece and cut.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.config import GPT2Config, read_config
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.graph_runner import CPU_PROVIDER, GraphRunner, open_session
from export.manifest import MANIFEST_FILE, as_bytes, find_graph, find_graphs
from export.reference import Reference
from export.small_files import ReadError, read_object
from export.storage import FLOAT16, STORAGES, Precision, Storage
from export.weights import Weights
from export.whole import replacing

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
# A share of the largest logit would not do: that noise is 0.01 of it in one model, 0.5 in another.
NOISE_FACTOR: Final = 10.0
_NOISE_FACTOR_OF_BLOCKS: Final = 4.0

_CAPACITY_STEP: Final = 8
_LARGEST: Final = 127  # of 8 bits with a sign


class Expectation:
    """The oracle's logits of one text at the asked positions."""

    def __init__(
        self,
        config: GPT2Config,
        weights: Weights,
        text: Sequence[int],
        asked: Sequence[int],
        *,
        precision: Precision = Precision.FP32,
    ) -> None:
        self.text = text
        self.asked = asked
        self._model = (config, weights)
        self._precision = precision
        self._logits = Reference(*self._model, dtype=np.float32).logits(text, asked)  # [K, V]
        self._noise: float | None = None

    def compare(self, found: Array, position: int, what: str) -> None:
        """Compare logits [V] at one of the asked positions with the oracle's.

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
        if self._noise is None:
            self._noise = self._find_noise()
        floats = STORAGES[self._precision].matrices is None
        factor = NOISE_FACTOR if floats else _NOISE_FACTOR_OF_BLOCKS
        allowed = max(allowed, factor * self._noise)
        if not difference <= allowed:  # also when it is NaN
            raise CheckError(
                f"the exported graph is wrong at {what}: logits differ from the reference by "
                f"{difference:.2g} where {allowed:.2g} is allowed"
            )

    def _find_noise(self) -> float:
        """Return by how much rounding moves the oracle's logits, by another forward pass."""
        if self._precision is Precision.FP32:
            other = Reference(*self._model, dtype=np.float64)
        else:
            rounded = functools.partial(round_entering, storage=STORAGES[self._precision])
            other = Reference(*self._model, dtype=np.float32, rounded=rounded)
        return float(np.abs(self._logits - other.logits(self.text, self.asked)).max())


def round_entering(x: Array, storage: Storage) -> Array:
    """Round what enters a matrix, [S, K], and return it in its own dtype.

    To float16, or as MatMulNBits does at accuracy level 4: to whole numbers up to 127, with one
    scale for each block of a row, as large as those of the weights. Measured of ONNX Runtime
    1.31.1: the operator and this followed by a product in float64 agree to 1e-5 of the result.
    """
    if storage.activations == FLOAT16:
        return x.astype(np.float16).astype(x.dtype)
    if storage.matrices is None:
        return x
    blocks = storage.matrices.split(x)  # [S, K/size, size]
    steps = np.abs(blocks).max(axis=-1, keepdims=True) / _LARGEST
    steps[steps == 0] = 1
    rounded: Array = (np.rint(blocks / steps) * steps).reshape(len(x), -1)[:, : x.shape[1]]
    return rounded.astype(x.dtype, copy=False)


@np.errstate(over="ignore", invalid="ignore")  # compare tells what is not finite
def check(
    graphs: Sequence[Path],
    config: GPT2Config,
    weights: Weights,
    *,
    precision: Precision = Precision.FP32,
    provider: str = CPU_PROVIDER,
    full: bool = False,
    report: Callable[[str], None] = lambda stage: None,
) -> None:
    """Check of each graph prefill, decode and ragged rows, at a handful of positions or at all.

    Raises:
        CheckError: with the largest difference found.
    """
    limit = config.n_positions
    longest = min(limit, 33 if full else 6)
    lengths = [1, min(2, limit), min(9, limit), longest] if full else [longest, max(1, longest - 2)]
    texts = draw_texts(config, lengths)
    rows = [Expectation(config, weights, t, range(len(t)), precision=precision) for t in texts]
    whole = _expect_whole(config, weights, precision) if full else None
    for graph in graphs:  # opened after the oracle is done: one of them in memory
        session = open_session(graph, provider)
        _check_rows(session, config, rows, decoded=8 if full else 2)
        if whole:
            report(f"checking all positions by {graph.name}, in one piece and cut")
            for cuts in ([], [1], [limit // 3, limit // 2], [limit - 1], [limit - 2, limit - 1]):
                _check_cut(session, config, whole, sorted({c for c in cuts if 0 < c < limit}))
        del session  # before the next one is opened


def recheck(folder: Path, provider: str) -> None:
    """Run the short check of a model folder on `provider`, and add the pair to its record.

    For another onnxruntime or provider than it was written with. A folder that cannot be written
    keeps its record; it is then checked at every start.

    Raises:
        CheckError: if the graph is wrong there.
    """
    try:
        manifest: dict[str, Any] = read_object(folder / MANIFEST_FILE)
    except ReadError as error:
        raise CheckError(f"{folder / MANIFEST_FILE} {error.reason}; export again") from error
    graphs = [find_graph(folder)]
    if provider == CPU_PROVIDER:
        graphs = find_graphs(folder)[1:] or graphs
    check(
        graphs,
        read_config(folder),
        FolderWeights(find_graph(folder)),
        precision=Precision(manifest["precision"]),
        provider=provider,
    )
    manifest["checked"].append({"onnxruntime": onnxruntime.__version__, "provider": provider})
    with suppress(OSError), replacing(folder / MANIFEST_FILE) as file:
        file.write(as_bytes(manifest))


def _check_rows(
    session: Any, config: GPT2Config, rows: Sequence[Expectation], *, decoded: int
) -> None:
    """Prefill each row by itself, then decode the last `decoded` tokens of all rows together."""
    texts = [row.text for row in rows]
    capacity = -(-max(map(len, texts)) // _CAPACITY_STEP) * _CAPACITY_STEP
    runner = GraphRunner(session, config, rows=len(texts), capacity=capacity)
    starts = [max(0, len(text) - decoded) for text in texts]
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        if start:
            found = runner.run([row.text[:start]], [0], first_row=number)[0]
            for position in range(start):
                row.compare(found[position], position, f"prefill of row {number}")
    for step in range(decoded):
        positions = [min(start + step, len(t) - 1) for start, t in zip(starts, texts, strict=True)]
        ids = [[text[position]] for text, position in zip(texts, positions, strict=True)]
        found = runner.run(ids, positions)[:, 0]
        for number, (row, position) in enumerate(zip(rows, positions, strict=True)):
            row.compare(found[number], position, f"decode step {step} of row {number}")


def _check_cut(session: Any, config: GPT2Config, whole: Expectation, cuts: Sequence[int]) -> None:
    """Feed one text in the pieces between `cuts`."""
    limit = len(whole.text)
    runner = GraphRunner(session, config, rows=1, capacity=limit)
    for start, stop in itertools.pairwise([0, *cuts, limit]):
        positions = [position for position in whole.asked if start <= position < stop]
        asked = [position - start for position in positions]
        found = runner.run([whole.text[start:stop]], [start], asked=asked)[0]  # [K, V]
        for position, logits in zip(positions, found, strict=True):
            whole.compare(logits, position, f"position {position}")


def _expect_whole(config: GPT2Config, weights: Weights, precision: Precision) -> Expectation:
    """Expect a text of all positions at a few of them: all logits would be S·V numbers."""
    limit = config.n_positions
    [text] = draw_texts(config, [limit])
    asked = sorted({0, 1 % limit, limit // 3, limit // 2, max(0, limit - 2), limit - 1})
    return Expectation(config, weights, text, asked, precision=precision)


def draw_texts(config: GPT2Config, lengths: Sequence[int]) -> list[list[int]]:
    """Return seeded ids spread over the whole vocabulary."""
    draw = np.random.Generator(np.random.Philox(0))
    return [draw.integers(0, config.vocab_size, length).tolist() for length in lengths]
