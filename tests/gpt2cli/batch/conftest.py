"""Fixtures for the tests of batches."""

import pathlib

import pytest

from gpt2cli.loading import LoadedModel
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.jobs import Job
from tests.gpt2cli.loaded import load
from tests.model_folders import ModelFolders


@pytest.fixture(scope="session")
def small_model(model_folders: ModelFolders) -> LoadedModel:
    return load(model_folders())


@pytest.fixture
def job(ascii_tokenizer: Tokenizer, small_model: LoadedModel, tmp_path: pathlib.Path) -> Job:
    return Job(ascii_tokenizer, small_model, tmp_path / "out")
