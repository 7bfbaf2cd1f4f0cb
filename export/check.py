"""Runs a written graph by plain `session.run` against the NumPy oracle.

No model folder takes its name unchecked. The short check has two rows of different lengths,
prefilled one by one, then decoded together. The full one has more and longer rows, and a prompt of
all positions, in one piece and cut.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import DTypeLike, NDArray

from export.checkpoint import Weights
from export.config import GPT2Config
from export.errors import CheckError
from export.reference import Reference

Array = NDArray[Any]

# Largest difference allowed between two float32 forwards, as a share of the largest logit (at
# least 1). Random models of the 124M and the 1558M shape, with and without outlier channels, show
# 1.4e-5 over the short check's six positions, the trained starter 1e-6.
TOLERANCE: Final = 2e-4
# Where that is exceeded, float32's own error counts: the difference of the float32 oracle from the
# float64 one, times this. Random models amplify it along a text: at the 1558M shape two right
# forwards of 1024 tokens differ by 1.3e-3. Measured: graph and oracle differ by up to 1.8 times it.
NOISE_FACTOR: Final = 10.0

CPU_PROVIDER: Final = "CPUExecutionProvider"
_CUDA_PROVIDER: Final = "CUDAExecutionProvider"

_CAPACITY_STEP: Final = 8


def open_session(model_path: Path, provider: str = CPU_PROVIDER) -> Any:
    """Load a graph as the engine does, with all that ONNX Runtime then does to graph and weights.

    So the weights are packed into memory of ONNX Runtime's own, once, and not left mapped.

    Raises:
        CheckError: if ONNX Runtime cannot load it, or would run it elsewhere.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is an error is raised
    # TF32, on by default, keeps 10 bits of a factor.
    settings = {"use_tf32": "0"} if provider == _CUDA_PROVIDER else {}
    with _translated():
        session = onnxruntime.InferenceSession(
            str(model_path), options, providers=[(provider, settings)]
        )
    if provider not in session.get_providers():  # it fell back to the CPU
        raise CheckError(f"ONNX Runtime cannot run the exported graph by {provider}")
    return session


class GraphRunner:
    """A graph and its cache as plain arrays: every call passes the whole cache in and out."""

    def __init__(self, session: Any, config: GPT2Config, *, rows: int, capacity: int) -> None:
        self._session = session
        self._names = [output.name for output in session.get_outputs()]
        shape = (rows, config.n_head, capacity, config.head_dim)
        self._cache = {
            f"past_key_values.{layer}.{part}": np.zeros(shape, np.float32)  # [B, H, M, D]
            for layer in range(config.n_layer)
            for part in ("key", "value")
        }

    def run(
        self,
        ids: Sequence[Sequence[int]],
        starts: Sequence[int],
        *,
        first_row: int = 0,
        asked: Sequence[int] | None = None,
    ) -> Array:
        """Append tokens to consecutive rows: [B, S] ids, [B] past lengths -> logits [B, K, V].

        `asked` are K places in S, the same for every row; default: all of S.

        Raises:
            CheckError: if ONNX Runtime cannot run the graph.
        """
        input_ids = np.array(ids, np.int64)
        batch, length = input_ids.shape
        rows = slice(first_row, first_row + batch)
        steps = np.arange(length, dtype=np.int64)
        feeds = {
            "input_ids": input_ids,
            "position_ids": np.array(starts, np.int64)[:, None] + steps,
            "logit_positions": np.tile(steps if asked is None else np.array(asked), (batch, 1)),
        }
        past = {name: array[rows] for name, array in self._cache.items()}
        with _translated():
            values = self._session.run(self._names, feeds | past)
        outputs = dict(zip(self._names, values, strict=True))
        for name, array in self._cache.items():
            array[rows] = outputs[name.replace("past_key_values", "present")]
        logits: Array = outputs["logits"]
        return logits


class Expectation:
    """What the oracle says of one text at the asked positions."""

    def __init__(
        self, config: GPT2Config, weights: Weights, text: Sequence[int], asked: Sequence[int]
    ) -> None:
        self.text = text
        self.asked = asked
        self._model = (config, weights)
        self._logits = self._compute(np.float32)  # [K, V]

    def compare(self, found: Array, position: int, what: str) -> None:
        """Hold logits [V] found at one of the asked positions against the oracle's.

        Raises:
            CheckError: if they differ by more than float32 can.
        """
        expected = self._logits[self.asked.index(position)]
        if not np.isfinite(expected).all():
            raise CheckError(f"the checkpoint's own logits are not finite at {what}")
        difference = float(np.abs(found - expected).max())
        allowed = TOLERANCE * max(1.0, float(np.abs(expected).max()))
        if difference <= allowed:
            return
        allowed = max(allowed, NOISE_FACTOR * self._noise)
        if not difference <= allowed:  # also when it is NaN
            raise CheckError(
                f"the exported graph is wrong at {what}: logits differ from the reference by "
                f"{difference:.2g} where {allowed:.2g} is allowed"
            )

    @functools.cached_property
    def _noise(self) -> float:
        """By how much rounding to float32 moves the oracle's logits; costs a second forward."""
        return float(np.abs(self._logits - self._compute(np.float64)).max())

    def _compute(self, dtype: DTypeLike) -> Array:
        return Reference(*self._model, dtype=dtype).logits(self.text, self.asked)


@np.errstate(over="ignore", invalid="ignore")  # compare tells what is not finite
def check_short(
    model_path: Path, config: GPT2Config, weights: Weights, *, provider: str = CPU_PROVIDER
) -> None:
    """Check prefill, decode and two ragged rows over a handful of positions.

    Raises:
        CheckError: with the largest difference found.
    """
    longest = min(config.n_positions, 6)
    rows = _expect_rows(config, weights, [longest, max(1, longest - 2)])
    session = open_session(model_path, provider)  # after the oracle: one of them in memory
    _check_rows(session, config, rows, decoded=min(2, longest - 1))


@np.errstate(over="ignore", invalid="ignore")
def check_full(
    model_path: Path,
    config: GPT2Config,
    weights: Weights,
    *,
    report: Callable[[str], None] = lambda stage: None,
) -> None:
    """Check ragged rows, and split prefills and decode steps up to the last position.

    Raises:
        CheckError: with the largest difference found.
    """
    report("checking ragged rows")
    limit = config.n_positions
    lengths = sorted({1, min(2, limit), min(9, limit), min(33, limit)})
    rows = _expect_rows(config, weights, lengths)
    [text] = _draw_texts(config, [limit])
    asked = sorted({0, 1 % limit, limit // 3, limit // 2, max(0, limit - 2), limit - 1})
    whole = Expectation(config, weights, text, asked)
    session = open_session(model_path)
    _check_rows(session, config, rows, decoded=min(8, limit))
    report(f"checking all {limit} positions")
    for cuts in ([], [1], [limit // 3, limit // 2], [limit - 1], [limit - 2, limit - 1]):
        report(f"checking a prefill cut at {cuts}" if cuts else "checking a prefill in one piece")
        _check_cut(session, config, whole, sorted({c for c in cuts if 0 < c < limit}))


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
            for place in range(start):
                row.compare(found[place], place, f"prefill of row {number}")
    for step in range(decoded):
        places = [min(start + step, len(t) - 1) for start, t in zip(starts, texts, strict=True)]
        ids = [[text[place]] for text, place in zip(texts, places, strict=True)]
        found = runner.run(ids, places)[:, 0]
        for number, (row, place) in enumerate(zip(rows, places, strict=True)):
            row.compare(found[number], place, f"decode step {step} of row {number}")


def _check_cut(session: Any, config: GPT2Config, whole: Expectation, cuts: Sequence[int]) -> None:
    """Feed one text in the pieces between `cuts`."""
    limit = len(whole.text)
    runner = GraphRunner(session, config, rows=1, capacity=limit)
    for start, stop in itertools.pairwise([0, *cuts, limit]):
        positions = [position for position in whole.asked if start <= position < stop]
        places = [position - start for position in positions]  # all of them would be S·V numbers
        found = runner.run([whole.text[start:stop]], [start], asked=places)[0]  # [K, V]
        for position, logits in zip(positions, found, strict=True):
            whole.compare(logits, position, f"position {position}")


def _expect_rows(config: GPT2Config, weights: Weights, lengths: Sequence[int]) -> list[Expectation]:
    texts = _draw_texts(config, lengths)
    return [Expectation(config, weights, text, range(len(text))) for text in texts]


def _draw_texts(config: GPT2Config, lengths: Sequence[int]) -> list[list[int]]:
    """Return seeded ids spread over the whole vocabulary."""
    draw = np.random.Generator(np.random.Philox(0))
    return [draw.integers(0, config.vocab_size, length).tolist() for length in lengths]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        reason = " ".join(str(error).split())
        raise CheckError(f"ONNX Runtime cannot run the exported graph: {reason}") from error
