"""Runs a written graph by plain `session.run`; the only module here that calls ONNX Runtime."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.config import GPT2Config
from export.errors import CheckError
from export.steps import STEPWISE

CPU_PROVIDER: Final = "CPUExecutionProvider"
_CUDA_PROVIDER: Final = "CUDAExecutionProvider"


def open_session(model_path: Path, provider: str = CPU_PROVIDER) -> Any:
    """Load a graph as the engine does, with all that ONNX Runtime then does to graph and weights.

    So the weights are packed into memory of ONNX Runtime's own, once, and not left mapped.

    Raises:
        CheckError: if ONNX Runtime cannot load it, or would run it elsewhere.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, so they need no log
    # TF32, on by default, keeps 10 bits of a factor.
    settings = {"use_tf32": "0"} if provider == _CUDA_PROVIDER else {}
    with _translated():
        session = onnxruntime.InferenceSession(
            str(model_path), options, providers=[(provider, settings)]
        )
    if provider not in session.get_providers():  # it fell back to the CPU
        raise CheckError(f"ONNX Runtime cannot run the exported graph by {provider}")
    return session


def run_graph(
    session: Any, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the outputs of these names, or raise CheckError if ONNX Runtime cannot run it."""
    with _translated():
        values = session.run(names, feeds)
    return dict(zip(names, values, strict=True))


class GraphRunner:
    """A graph and its cache as plain arrays: every call passes the whole cache in and out."""

    def __init__(self, session: Any, config: GPT2Config, *, rows: int, capacity: int) -> None:
        self._session = session
        self._names = [o.name for o in session.get_outputs() if not o.name[-1].isdigit()]
        types = {value.name: value.type for value in session.get_inputs()}
        self._can_step = STEPWISE in types
        dtype = np.float16 if types["past_key_values.0.key"] == "tensor(float16)" else np.float32
        shape = (rows, config.n_head, capacity, config.head_dim)
        self._cache = {
            f"past_key_values.{layer}.{part}": np.zeros(shape, dtype)  # [B, H, M, D]
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
    ) -> NDArray[Any]:
        """Append tokens to consecutive rows: [B, S] ids, [B] past lengths -> logits [B, K, V].

        `asked` are K indices in S, the same for every row; default: all of S.

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
        if self._can_step:
            feeds[STEPWISE] = np.array(False)
        past = {name: array[rows] for name, array in self._cache.items()}
        outputs = run_graph(self._session, self._names, feeds | past)
        for name, array in self._cache.items():
            array[rows] = outputs[name.replace("past_key_values", "present")]
        return outputs["logits"]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        reason = " ".join(str(error).split())
        raise CheckError(f"ONNX Runtime cannot run the exported graph: {reason}") from error
