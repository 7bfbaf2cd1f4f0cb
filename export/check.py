"""Runs a written graph by plain `session.run` against the NumPy oracle.

The short check runs before every model folder takes its name: two rows of different lengths,
prefilled one by one, then decoded together. The full one adds a prompt of all positions, split
prefills and more rows.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.checkpoint import Weights
from export.config import GPT2Config
from export.errors import CheckError
from export.reference import Reference

Array = NDArray[Any]

# Largest difference allowed in float32, as a share of the largest logit (at least 1). Two orders
# of summation over 48 layers stay well below; a wrong weight, mask or position does not.
TOLERANCE: Final = 1e-3

CPU_PROVIDER: Final = "CPUExecutionProvider"

_CAPACITY_STEP: Final = 8


class GraphRunner:
    """A graph and its cache as plain arrays: every call passes the whole cache in and out."""

    def __init__(
        self,
        model_path: Path,
        config: GPT2Config,
        *,
        rows: int,
        capacity: int,
        provider: str = CPU_PROVIDER,
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what is an error is raised
        with _translated():
            self._session = onnxruntime.InferenceSession(
                str(model_path), options, providers=[provider]
            )
        self._names = [output.name for output in self._session.get_outputs()]
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


@np.errstate(over="ignore", invalid="ignore")  # _compare tells what is not finite
def check_short(
    model_path: Path, config: GPT2Config, weights: Weights, *, provider: str = CPU_PROVIDER
) -> None:
    """Check prefill, decode and two ragged rows over a handful of positions.

    Raises:
        CheckError: with the largest difference found.
    """
    longest = min(config.n_positions, 6)
    texts = _texts(config, [longest, max(1, longest - 2)])
    decoded = min(2, longest - 1)
    _check_rows(model_path, config, weights, texts, decoded=decoded, provider=provider)


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
    _check_rows(model_path, config, weights, _texts(config, lengths), decoded=min(8, limit))
    report(f"checking all {limit} positions")
    [text] = _texts(config, [limit])
    asked = sorted({0, 1 % limit, limit // 3, limit // 2, max(0, limit - 2), limit - 1})
    expected = Reference(config, weights, dtype=np.float32).logits(text, asked)  # [K, V]
    for cuts in ([], [1], [limit // 3, limit // 2], [limit - 1], [limit - 2, limit - 1]):
        report(f"checking a prefill cut at {cuts}" if cuts else "checking a prefill in one piece")
        runner = GraphRunner(model_path, config, rows=1, capacity=limit)
        edges = [0, *sorted({c for c in cuts if 0 < c < limit}), limit]
        for start, stop in itertools.pairwise(edges):
            rows = [row for row, position in enumerate(asked) if start <= position < stop]
            places = [asked[row] - start for row in rows]  # all S of them would be S·V numbers
            found = runner.run([text[start:stop]], [start], asked=places)[0]  # [K, V]
            for row, logits in zip(rows, found, strict=True):
                _compare(logits, expected[row], f"position {asked[row]}")


def _check_rows(
    model_path: Path,
    config: GPT2Config,
    weights: Weights,
    texts: Sequence[Sequence[int]],
    *,
    decoded: int,
    provider: str = CPU_PROVIDER,
) -> None:
    """Prefill each row by itself, then decode the last `decoded` tokens of all rows together."""
    oracle = Reference(config, weights, dtype=np.float32)
    expected = [oracle.logits(text, range(len(text))) for text in texts]  # [S, V] each
    capacity = -(-max(map(len, texts)) // _CAPACITY_STEP) * _CAPACITY_STEP
    runner = GraphRunner(model_path, config, rows=len(texts), capacity=capacity, provider=provider)
    starts = [max(0, len(text) - decoded) for text in texts]
    for row, (text, start) in enumerate(zip(texts, starts, strict=True)):
        if start:
            found = runner.run([text[:start]], [0], first_row=row)[0]
            _compare(found, expected[row][:start], f"prefill of row {row}")
    for step in range(decoded):
        places = [min(start + step, len(t) - 1) for start, t in zip(starts, texts, strict=True)]
        ids = [[text[place]] for text, place in zip(texts, places, strict=True)]
        found = runner.run(ids, places)[:, 0]
        wanted = np.stack([e[place] for e, place in zip(expected, places, strict=True)])
        _compare(found, wanted, f"decode step {step}")


def _texts(config: GPT2Config, lengths: Sequence[int]) -> list[list[int]]:
    """Return seeded ids spread over the whole vocabulary."""
    draw = np.random.Generator(np.random.Philox(0))
    return [draw.integers(0, config.vocab_size, length).tolist() for length in lengths]


def _compare(found: Array, expected: Array, what: str) -> None:
    if not np.isfinite(expected).all():
        raise CheckError(f"the checkpoint's own logits are not finite at {what}")
    difference = float(np.abs(found - expected).max())
    largest = max(1.0, float(np.abs(expected).max()))
    if not difference <= TOLERANCE * largest:  # also when it is NaN
        raise CheckError(
            f"the exported graph is wrong at {what}: logits differ from the reference by "
            f"{difference:.2g} where {TOLERANCE * largest:.2g} is allowed"
        )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        reason = " ".join(str(error).split())
        raise CheckError(f"ONNX Runtime cannot run the exported graph: {reason}") from error
