"""Owns the stored cases made ready once per session: converted, loaded, and the oracle's word."""

import functools
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.manifest import MODEL_FILE
from export.reference import Reference
from tests.export.graph_session import GraphSession
from tests.model_folders import ModelFolders
from tests.vectors.cases import LogitsCase, StoredLogits, load_stored


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

    def compute_expected(self, ids: list[int]) -> npt.NDArray[Any]:
        """Return the oracle's logits of other ids, float64 [S, V]."""
        with open_checkpoint(self.checkpoint) as weights:
            return Reference(self.config, weights).logits(ids, range(len(ids)))

    def pick_stored(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the part of logits [S, V] that is stored: [K, C]."""
        return logits[np.ix_(self.stored.positions, self.stored.vocabulary_ids)]
