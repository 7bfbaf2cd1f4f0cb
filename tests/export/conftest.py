"""Fixtures of the tests of `export`: the stored cases, and small checkpoints."""

import pathlib

import pytest

from tests.export.conversions import SMALLEST_SHAPE
from tests.export.prepared import PreparedCase
from tests.model_folders import ModelFolders
from tests.vectors.cases import CASES, LogitsCase


@pytest.fixture(scope="session", params=CASES, ids=lambda case: case.name)
def prepared(request: pytest.FixtureRequest, model_folders: ModelFolders) -> PreparedCase:
    """Give every stored case in turn."""
    case: LogitsCase = request.param
    return PreparedCase(case, model_folders)


@pytest.fixture(scope="session")
def small(model_folders: ModelFolders) -> PreparedCase:
    """Give one small case: two layers, two heads, 24 positions."""
    return PreparedCase(next(case for case in CASES if case.name == "small"), model_folders)


@pytest.fixture(scope="session")
def checkpoint(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest checkpoint folder; read it, do not change it."""
    return model_folders.checkpoint(SMALLEST_SHAPE, tokenizer="bytes")
