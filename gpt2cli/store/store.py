"""Finds the model folder for a name, and which model runs when none is named."""

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from gpt2cli.errors import HubError, UsageError
from gpt2cli.model_folder import PRECISIONS, ModelFolder, is_model_folder, read_model_folder
from gpt2cli.store.exports import (
    ExportKey,
    export_once,
    find_exported,
    local_origin,
    write_tokenizer,
)
from gpt2cli.store.hub import Hub, find_offline_variable
from gpt2cli.store.hub_files import find_missing
from gpt2cli.store.memory import (
    DefaultMemory,
    describe_way,
    keep_commit,
    read_commit,
    recall_default,
    remember_default,
)
from gpt2cli.store.names import DEFAULT_MODEL, STARTER, HubName, StarterName, parse_name

STARTER_FOLDER: Final = Path(__file__).parent.parent / "starter"
AUTO: Final = "auto"
_CHECKPOINT_SUFFIXES: Final = (".json", ".safetensors")
_MAIN: Final = "main"
_HUB: Final = Hub()


class Listener(Protocol):
    """Is told what happens while a model is waited for."""

    @property
    def watched(self) -> bool:
        """Whether a person would see a progress bar."""
        ...

    def note(self, text: str) -> None:
        """Take a sentence that the user should read."""

    def stage(self, text: str) -> None:
        """Take what goes on now."""

    def pause(self) -> None:
        """Make way: another library is about to draw its own progress."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that is ready to load, under the name that records tell."""

    folder: ModelFolder
    name: str
    revision: str | None  # the commit of a hub model


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on this machine, and what identifies it in export.json."""

    folder: Path
    origin: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Finds a model as it is wanted; its methods download and export it if need be.

    `precision` is one, or "auto". `auto_precision` is what that exports; a model folder is taken in
    whatever precision it has.

    All methods raise:
        ModelError: if there is no such model, or it cannot be had or converted.
        UsageError: if a revision or precision is asked of a model that has no such choice.
    """

    listener: Listener
    revision: str | None = None
    precision: str = AUTO
    auto_precision: str = "fp32"
    offline: bool = False
    hub: Hub = _HUB
    scratch: Path | None = None  # an empty folder for the tokenizer, where that is all

    def find(self, name: str | None) -> StoredModel:
        """Return the model for `name`; None is the default."""
        return self._find_default() if name is None else self._find_named(name)

    def pull(self, name: str) -> StoredModel:
        """Return the model for `name` as it is now: the hub is asked even if the cache has one."""
        meaning = parse_name(name)
        if isinstance(meaning, HubName) and not self._is_offline():
            return self._export_snapshot(meaning.repo, self._download(meaning.repo))
        return self._find_named(name)

    @contextmanager
    def find_tokenizer(self, name: str | None) -> Iterator[StoredModel]:
        """Give a model for its tokenizer alone: no weights are downloaded, nothing is converted.

        It is one that `find` gave before, whatever its precision, or what the checkpoint's other
        files make; its folder may be gone after the block.
        """
        with tempfile.TemporaryDirectory(prefix="gpt2-") as scratch:
            yield replace(self, scratch=Path(scratch)).find(name)

    def find_checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint for `name`; one that is exported already is a UsageError."""
        meaning = parse_name(name)
        if isinstance(meaning, HubName):
            snapshot = self._find_snapshot(meaning.repo)
            return Checkpoint(snapshot, _hub_origin(meaning.repo, snapshot.name))
        self._refuse_revision(name)
        folder = STARTER_FOLDER if isinstance(meaning, StarterName) else meaning.path
        if is_model_folder(folder):
            raise UsageError(f"{folder} is already a model folder; expected a checkpoint")
        return Checkpoint(folder, local_origin(folder))

    def _find_default(self) -> StoredModel:
        """Return the default model; until it has once run here, the starter may stand in for it.

        A revision of it is named by the user, as a model is: nothing stands in for that.
        """
        memory = recall_default()
        may_stand_in = not memory.has_run and self.revision is None
        remembered = may_stand_in and memory.hub_failed_lately and not self._is_offline()
        store = replace(self, offline=True) if remembered else self
        try:
            model = store._find_named(DEFAULT_MODEL)
        except HubError as error:
            if not may_stand_in:
                raise
            reason = error.fault
            if remembered:
                reason = f"{memory.hub_failure}; `gpt2 models pull {DEFAULT_MODEL}` tries again"
            if not store._is_offline():
                remember_default(DefaultMemory(False, time.time(), reason, describe_way()))
            self.listener.note(
                f"using the bundled {STARTER} model, which writes children's stories: {reason}"
            )
            return self._find_starter()
        if not memory.has_run and self.scratch is None:
            remember_default(DefaultMemory(has_run=True))
        return model

    def _find_named(self, name: str) -> StoredModel:
        meaning = parse_name(name)
        if isinstance(meaning, HubName):
            return self._find_hub_model(meaning.repo)
        self._refuse_revision(name)
        return (
            self._find_starter()
            if isinstance(meaning, StarterName)
            else self._find_local(meaning.path)
        )

    def _refuse_revision(self, name: str) -> None:
        if self.revision is not None:
            raise UsageError(f"{name} is not a hub model", "leave it out", option="revision")

    def _find_starter(self) -> StoredModel:
        folder = self._find_or_export(STARTER_FOLDER, STARTER, _starter_origin())
        return StoredModel(folder, STARTER, None)

    def _find_local(self, path: Path) -> StoredModel:
        if not is_model_folder(path):
            folder = self._find_or_export(path, path.resolve().name, local_origin(path))
            return StoredModel(folder, str(path), None)
        folder = read_model_folder(path)
        if self.scratch is None and self.precision not in (AUTO, folder.precision):
            raise UsageError(
                option="precision",
                expected=f"{folder.precision}, the precision of this model folder",
                found=self.precision,
                advice="export its checkpoint again for another precision",
            )
        return StoredModel(folder, str(path), None)

    def _find_hub_model(self, repo: str) -> StoredModel:
        """Look here first: what was exported from this revision before needs no network."""
        commit = read_commit(repo, self.revision or _MAIN)
        if commit is not None:
            found = self._find_exported(repo, _hub_origin(repo, commit))
            if found is not None:
                return StoredModel(found, repo, commit)
        return self._export_snapshot(repo, self._find_snapshot(repo))

    def _export_snapshot(self, repo: str, snapshot: Path) -> StoredModel:
        commit = snapshot.name
        folder = self._find_or_export(snapshot, repo, _hub_origin(repo, commit))
        keep_commit(repo, self.revision or _MAIN, commit)
        return StoredModel(folder, repo, commit)

    def _find_snapshot(self, repo: str) -> Path:
        """Return the hub's checkpoint: from the hub's own cache if it is there, else downloaded."""
        self.listener.stage(f"looking for {repo}")
        snapshot = self.hub.find_snapshot(repo, self.revision or _MAIN)
        missing = snapshot and find_missing(snapshot, weights=self.scratch is None)
        if snapshot is not None and not missing:
            return snapshot
        if self._is_offline():
            fault = f"{repo} is not on this machine"
            if missing:
                fault = f"the download of {repo} is incomplete: missing {', '.join(missing)}"
            switch = find_offline_variable() or "{offline}"
            raise HubError(f"{fault}, and offline mode is on", f"run once without {switch}")
        return self._download(repo)

    def _download(self, repo: str) -> Path:
        self.listener.pause()
        return self.hub.download(
            repo,
            self.revision or _MAIN,
            progress=self.listener.watched,
            weights=self.scratch is None,
        )

    def _is_offline(self) -> bool:
        return self.offline or find_offline_variable() is not None

    def _find_exported(self, label: str, origin: Mapping[str, Any]) -> ModelFolder | None:
        wanted = [self._export_precision] if self.scratch is None else PRECISIONS
        keys = (ExportKey(label, origin, precision) for precision in wanted)
        return next((found for found in map(find_exported, keys) if found is not None), None)

    @property
    def _export_precision(self) -> str:
        return self.auto_precision if self.precision == AUTO else self.precision

    def _find_or_export(
        self, checkpoint: Path, label: str, origin: Mapping[str, Any]
    ) -> ModelFolder:
        found = self._find_exported(label, origin)
        if found is not None:
            return found
        if self.scratch is not None:
            return write_tokenizer(checkpoint, self.scratch, origin)
        key, listener = ExportKey(label, origin, self._export_precision), self.listener
        return export_once(checkpoint, key, note=listener.note, stage=listener.stage)


def _starter_origin() -> dict[str, Any]:
    """Return what identifies the starter: what is in its files, since each install dates them anew.

    To read its 12 MB takes about 10 ms.
    """
    paths = sorted(path for path in STARTER_FOLDER.iterdir() if path.suffix in _CHECKPOINT_SUFFIXES)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return {"name": STARTER, "sha256": digests}


def _hub_origin(repo: str, commit: str) -> dict[str, str]:
    return {"repo": repo, "commit": commit}
