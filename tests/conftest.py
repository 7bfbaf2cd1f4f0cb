"""Fixtures for all tests: model folders that are made once per session and only read."""

import os
import pathlib
import signal
from collections.abc import Generator, Iterator
from typing import Final

import pytest

from tests.model_folders import ModelFolders

_LONGEST_SECONDS: Final = 120  # of a test, on a busy machine
_STARTER_CHECKPOINT: Final = pathlib.Path(__file__).parents[1] / "gpt2cli" / "starter"


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the environment's GPT2_… and the user's config file out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GPT2_")]:
            patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        # Else the threads of several workers spin, each on a core that another one needs.
        patch.setenv("GPT2_THREADS", "1")
        yield


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> ModelFolders:
    """Make model folders: `model_folders(shape, tied=…, …)`; read them, do not change them."""
    return ModelFolders(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def starter_folder(model_folders: ModelFolders) -> pathlib.Path:
    """Return the model folder of the bundled starter checkpoint; read it, do not change it."""
    return model_folders.convert(_STARTER_CHECKPOINT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Let a test that hangs fail instead, where there are alarms."""
    if not hasattr(signal, "SIGALRM"):
        return (yield)

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"the test has not ended within {_LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_LONGEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
