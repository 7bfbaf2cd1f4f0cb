"""Fixtures for all tests: model folders that are made once per session and only read."""

import pathlib
from typing import Final

import pytest

from tests.model_folders import ModelFolders

_STARTER_CHECKPOINT: Final = pathlib.Path(__file__).parents[1] / "gpt2cli" / "starter"


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> ModelFolders:
    """Make model folders: `model_folders(shape, tied=…, …)`; read them, do not change them."""
    return ModelFolders(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def starter_folder(model_folders: ModelFolders) -> pathlib.Path:
    """Return the model folder of the bundled starter checkpoint; read it, do not change it."""
    return model_folders.convert(_STARTER_CHECKPOINT)
