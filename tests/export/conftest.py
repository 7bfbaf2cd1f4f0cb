"""Fixtures of the tests of `export`: the stored cases, and small checkpoints."""

import pathlib
from collections.abc import Collection
from typing import Any, Final

import pytest

from export.manifest import CPU_MODEL_FILE, MODEL_FILE
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.graph_session import PreparedCase
from tests.model_folders import ModelFolders
from tests.vectors.cases import CASES

# Heads of some cases have a size that GroupQueryAttention refuses; these have one graph.
_CASES_AND_GRAPHS: Final = [(case, MODEL_FILE) for case in CASES] + [
    (case, CPU_MODEL_FILE) for case in CASES if case.shape.n_embd // case.shape.n_head % 8 == 0
]
_FEW: Final = ("head16-layers4-vocab50257", "head64-layers3-vocab4096", "untied")


def _give(names: Collection[str], *graphs: str) -> Any:
    """Return a fixture that gives these cases in turn, by each of these graphs that they have."""

    def give(request: pytest.FixtureRequest, model_folders: ModelFolders) -> PreparedCase:
        case, graph_name = request.param
        return PreparedCase(case, model_folders, graph_name=graph_name)

    pairs = [pair for pair in _CASES_AND_GRAPHS if pair[0].name in names and pair[1] in graphs]
    ids = [f"{case.name}-{graph_name}" for case, graph_name in pairs]
    return pytest.fixture(scope="session", params=pairs, ids=ids)(give)


_BOTH: Final = (MODEL_FILE, CPU_MODEL_FILE)
prepared = _give([case.name for case in CASES], *_BOTH)
once = _give([case.name for case in CASES], MODEL_FILE)  # for what asks no graph
few = _give(_FEW, *_BOTH)  # for what depends on the shape alone: heads of 16, 32 and 64
small = _give(["small"], *_BOTH)  # two layers, two heads, 24 positions


@pytest.fixture(scope="session")
def checkpoint(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest checkpoint folder; read it, do not change it."""
    return model_folders.checkpoint(SMALLEST_SHAPE, tokenizer="bytes")
