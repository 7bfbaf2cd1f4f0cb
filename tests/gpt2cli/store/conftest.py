"""Keeps every test of the store away from the user's own cache, state and hub."""

import pathlib
import shutil
from dataclasses import dataclass, field

import pytest

from tests.checkpoints import CheckpointShape
from tests.model_folders import ModelFolders


@dataclass
class Told:
    """A listener that keeps what it is told."""

    notes: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    watched: bool = False

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def pause(self) -> None:
        return


@pytest.fixture
def told() -> Told:
    """Return a listener whose notes and stages can be read."""
    return Told()


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Give each test an empty home: cache, state and the hub's cache lie in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path


@pytest.fixture
def starter_checkpoint(
    model_folders: ModelFolders,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> pathlib.Path:
    """Let a small checkpoint with a card be the bundled one, which takes seconds to export."""
    shape = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=257)
    folder = tmp_path_factory.mktemp("starter") / "checkpoint"
    shutil.copytree(model_folders.checkpoint(shape), folder)
    (folder / "README.md").touch()
    for module in ("names", "store"):
        monkeypatch.setattr(f"gpt2cli.store.{module}.STARTER_FOLDER", folder)
    return folder
