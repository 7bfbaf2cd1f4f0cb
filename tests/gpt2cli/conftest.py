"""Fixtures for the tests of the runtime: model folders as it reads them, engines and tokenizers."""

import pathlib
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.terminal.interrupt import ENDINGS
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape, write_tokenizer
from tests.gpt2cli.folders import bare_folder
from tests.model_folders import ModelFolders

# A deadline measures the machine; a database would make one run depend on another.
settings.register_profile("gpt2cli", deadline=None, database=None, max_examples=50)
settings.load_profile("gpt2cli")


@pytest.fixture(scope="session")
def starter(starter_folder: pathlib.Path) -> ModelFolder:
    """Return the starter's model folder."""
    return read_model_folder(starter_folder)


@pytest.fixture(scope="session")
def starter_engine(starter: ModelFolder) -> Engine:
    """Return an engine with eight slots for the starter; leave it without active slots."""
    return Engine(starter, Device("cpu"), threads=1)


@pytest.fixture(scope="session")
def small(model_folders: ModelFolders) -> ModelFolder:
    """Return the model folder of the smallest checkpoint: n_positions 33, 289 ids that decode."""
    return read_model_folder(model_folders())


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a tokenizer with one token per byte and <|endoftext|> as id 256; it has no model."""
    folder = tmp_path_factory.mktemp("bytes")
    end_of_text = write_tokenizer(folder, 257, kind="bytes")
    return Tokenizer(bare_folder(folder, vocab_size=257, eos_token_id=end_of_text))


@pytest.fixture(scope="session")
def ascii_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a tokenizer of printable ASCII: id = code − 32, newline 95, <|endoftext|> 96."""
    folder = tmp_path_factory.mktemp("ascii")
    end_of_text = write_tokenizer(folder, 97, kind="ascii")
    return Tokenizer(bare_folder(folder, vocab_size=97, eos_token_id=end_of_text))


@pytest.fixture(scope="session")
def gpt2_folder(model_folders: ModelFolders) -> ModelFolder:
    """Return a model folder with GPT-2's real vocabulary."""
    shape = CheckpointShape(1, 1, 16, 8, GPT2_VOCAB_SIZE)
    return read_model_folder(model_folders(shape, tokenizer="gpt2"))


@pytest.fixture(scope="session")
def gpt2_tokenizer(gpt2_folder: ModelFolder) -> Tokenizer:
    """Return its tokenizer."""
    return Tokenizer(gpt2_folder)


@pytest.fixture
def default_handlers() -> Iterator[None]:
    """Begin as a program in the foreground does; set handlers and hooks back after the test."""
    hook = sys.unraisablehook
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def keep(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], pathlib.Path]:
    """Give the user's config file a text, in a folder of its own; return its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "gpt2" / "config.toml"
    path.parent.mkdir(parents=True)

    def write(text: str) -> pathlib.Path:
        path.write_text(text, encoding="utf-8")
        return path

    return write
