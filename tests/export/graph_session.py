"""Runs a written graph as its table says: the tests' own session and cache, apart from check.py.

The cache is updated in place, as the engine has it; check.py passes it in and out.
"""

import functools
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime

from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.manifest import MODEL_FILE
from export.reference import Reference
from tests.model_folders import ModelFolders
from tests.vectors.cases import LogitsCase, StoredLogits, load_stored

FloatArray: TypeAlias = npt.NDArray[np.float32]
Cache: TypeAlias = Mapping[str, FloatArray]  # past_key_values.* -> [B, H, M, D]

# Largest difference between two right float32 forwards; the same bound everywhere.
TOLERANCE: Final = 5e-5


class GraphSession:
    """One loaded graph; the caller keeps the caches."""

    def __init__(
        self,
        folder: pathlib.Path,
        config: GPT2Config,
        *,
        name: str = "model.onnx",
        dtype: npt.DTypeLike = np.float32,
        threads: int = 1,
    ) -> None:
        self._dtype = dtype
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            folder / name, options, providers=["CPUExecutionProvider"]
        )
        self._can_step = any(value.name == "stepwise" for value in self.session.get_inputs())
        self._config = config

    def make_cache(self, *, rows: int, capacity: int, noise_seed: int | None = None) -> Cache:
        """Return an empty cache: zeros, or loud noise wherever nothing has been written."""
        shape = (rows, self._config.n_head, capacity, self._config.head_dim)
        draw = np.random.Generator(np.random.Philox(noise_seed or 0))
        return {
            f"past_key_values.{layer}.{part}": np.zeros(shape, self._dtype)
            if noise_seed is None
            else draw.normal(0, 1e4, shape).astype(self._dtype)
            for layer in range(self._config.n_layer)
            for part in ("key", "value")
        }

    def run(
        self,
        ids: Sequence[Sequence[int]] | npt.NDArray[np.int64],
        starts: Sequence[int],
        cache: Cache,
        *,
        asked: Sequence[Sequence[int]] | None = None,
    ) -> FloatArray:
        """Append ids [B, S] after `starts` [B] tokens -> logits [B, K, V]; updates the cache.

        `asked` [B, K] are places in S; default: all.
        """
        input_ids = np.asarray(ids, np.int64)
        steps = np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape)
        positions = np.array(steps if asked is None else asked, np.int64)
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", input_ids)
        binding.bind_cpu_input("position_ids", np.array(starts, np.int64)[:, None] + steps)
        binding.bind_cpu_input("logit_positions", positions)
        if self._can_step:
            binding.bind_cpu_input("stepwise", np.array(False))
        for name, array in cache.items():
            _bind(binding.bind_input, name, array)
            _bind(binding.bind_output, name.replace("past_key_values", "present"), array)
        logits = np.empty((*positions.shape, self._config.vocab_size), np.float32)
        _bind(binding.bind_output, "logits", logits)
        self.session.run_with_iobinding(binding)
        return logits

    def run_text(self, ids: Sequence[int], cuts: Sequence[int] = ()) -> FloatArray:
        """Run one row in pieces that end at `cuts` -> logits [S, V]."""
        cache = self.make_cache(rows=1, capacity=len(ids))
        edges = itertools.pairwise([0, *cuts, len(ids)])
        return np.concatenate([self.run([ids[a:b]], [a], cache)[0] for a, b in edges])


def _bind(bind: Callable[..., None], name: str, array: npt.NDArray[Any]) -> None:
    assert array.flags.c_contiguous
    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def take_row(cache: Cache, row: int) -> Cache:
    """Return views of one row: what is written to them is written to the cache."""
    return {name: array[row : row + 1] for name, array in cache.items()}


def difference(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """Return the largest absolute difference; NaN if either holds one."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max())


@functools.cache  # since each graph of a case asks it the same
def _ask_oracle(checkpoint: pathlib.Path, ids: tuple[int, ...]) -> npt.NDArray[Any]:
    with open_checkpoint(checkpoint) as weights:
        return Reference(read_config(checkpoint), weights).logits(ids, range(len(ids)))


class PreparedCase:
    """One case of `tests.vectors.cases` and graph; its parts are made when first asked for."""

    def __init__(
        self, case: LogitsCase, folders: ModelFolders, *, graph_name: str = MODEL_FILE
    ) -> None:
        self.name = case.name
        self._graph_name = graph_name
        self.stored: StoredLogits = load_stored(case)
        self.ids: list[int] = self.stored.ids.tolist()  # [S] with S = n_positions
        self.checkpoint: pathlib.Path = folders.checkpoint(
            case.shape,
            config=case.config,
            tied=case.tied,
            n_inner=case.n_inner,
            tokenizer="bytes",
        )
        self.config: GPT2Config = read_config(self.checkpoint)
        self._folders = folders

    @functools.cached_property
    def folder(self) -> pathlib.Path:
        """The model folder."""
        return self._folders.convert(self.checkpoint)

    @functools.cached_property
    def graph(self) -> GraphSession:
        """The loaded graph."""
        return GraphSession(self.folder, self.config, name=self._graph_name)

    @functools.cached_property
    def expected(self) -> npt.NDArray[Any]:
        """The oracle's logits at every position, float64 [S, V]."""
        return self.compute_expected(self.ids)

    def compute_expected(self, ids: Sequence[int]) -> npt.NDArray[Any]:
        """Return the oracle's logits of other ids, float64 [S, V]."""
        return _ask_oracle(self.checkpoint, tuple(ids))

    def pick_stored(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the part of logits [S, V] that is stored: [K, C]."""
        return logits[np.ix_(self.stored.positions, self.stored.vocabulary_ids)]
