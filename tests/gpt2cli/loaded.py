"""A loaded model for tests of what is told about one."""

import pathlib

from gpt2cli.config import ModelConfig
from gpt2cli.loading import LoadedModel, load_model
from tests.gpt2cli.store.conftest import Told


def load(folder: pathlib.Path) -> LoadedModel:
    """Load a model folder onto the CPU."""
    return load_model(
        ModelConfig(model=str(folder), device="cpu", threads=1, offline=True),
        max_slots=1,
        listener=Told(),
    )
