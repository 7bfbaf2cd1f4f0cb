"""Fixtures for all tests: model folders that are made once per session and only read."""

import os
import pathlib
from collections.abc import Iterator
from typing import Final

import pytest

from tests.model_folders import ModelFolders

_STARTER_CHECKPOINT: Final = pathlib.Path(__file__).parents[1] / "gpt2cli" / "starter"


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the environment's GPT2_… and the user's config file out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GPT2_")]:
            patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> ModelFolders:
    """Make model folders: `model_folders(shape, tied=…, …)`; read them, do not change them."""
    return ModelFolders(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def starter_folder(model_folders: ModelFolders) -> pathlib.Path:
    """Return the model folder of the bundled starter checkpoint; read it, do not change it."""
    return model_folders.convert(_STARTER_CHECKPOINT)
