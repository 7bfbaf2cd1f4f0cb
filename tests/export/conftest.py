"""Fixtures of the tests of `export`: the stored cases, and small checkpoints."""

import pathlib
from typing import Final

import pytest

from export.manifest import CPU_MODEL_FILE, MODEL_FILE
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.graph_session import PreparedCase
from tests.model_folders import ModelFolders
from tests.vectors.cases import CASES, LogitsCase

# Heads of some cases have a size that GroupQueryAttention refuses; these have one graph.
_CASES_AND_GRAPHS: Final = [(case, MODEL_FILE) for case in CASES] + [
    (case, CPU_MODEL_FILE) for case in CASES if case.shape.n_embd // case.shape.n_head % 8 == 0
]
_FEW: Final = ("head16-layers4-vocab50257", "head64-layers3-vocab4096", "untied")


@pytest.fixture(
    scope="session", params=_CASES_AND_GRAPHS, ids=lambda pair: f"{pair[0].name}-{pair[1]}"
)
def prepared(request: pytest.FixtureRequest, model_folders: ModelFolders) -> PreparedCase:
    """Give every stored case in turn, by each graph that it has."""
    case: LogitsCase
    case, graph_name = request.param
    return PreparedCase(case, model_folders, graph_name=graph_name)


@pytest.fixture(
    scope="session",
    params=[pair for pair in _CASES_AND_GRAPHS if pair[0].name in _FEW],
    ids=lambda pair: f"{pair[0].name}-{pair[1]}",
)
def few(request: pytest.FixtureRequest, model_folders: ModelFolders) -> PreparedCase:
    """Give three of them, for what depends on the shape alone: heads of 16, 32 and 64."""
    case, graph_name = request.param
    return PreparedCase(case, model_folders, graph_name=graph_name)


@pytest.fixture(scope="session", params=[MODEL_FILE, CPU_MODEL_FILE])
def small(request: pytest.FixtureRequest, model_folders: ModelFolders) -> PreparedCase:
    """Give one small case by both graphs: two layers, two heads, 24 positions."""
    case = next(case for case in CASES if case.name == "small")
    return PreparedCase(case, model_folders, graph_name=request.param)


@pytest.fixture(scope="session")
def checkpoint(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest checkpoint folder; read it, do not change it."""
    return model_folders.checkpoint(SMALLEST_SHAPE, tokenizer="bytes")
