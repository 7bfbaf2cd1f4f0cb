"""Finds the model folder for a name, and which model runs when none is named."""

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from gpt2cli.config import PRECISIONS
from gpt2cli.errors import HubError, UsageError
from gpt2cli.model_folder import ModelFolder, is_model_folder, read_model_folder
from gpt2cli.store.exports import (
    Checkpoint,
    export_once,
    find_exported,
    hub_checkpoint,
    local_checkpoint,
    write_tokenizer,
)
from gpt2cli.store.hub import Hub, find_offline_variable
from gpt2cli.store.hub_files import ADAPTER, CHECKPOINT, TOKENIZER, Contents
from gpt2cli.store.memory import (
    DefaultMemory,
    describe_way,
    keep_commit,
    read_commit,
    recall_default,
    remember_default,
)
from gpt2cli.store.names import (
    DEFAULT_MODEL,
    STARTER,
    STARTER_FOLDER,
    name_step,
    parse_adapter,
    parse_name,
)

AUTO: Final = "auto"
_CHECKPOINT_SUFFIXES: Final = (".json", ".safetensors")
_MAIN: Final = "main"
_HUB: Final = Hub()


class Listener(Protocol):
    """Receives notes and stages while a model is found, downloaded and converted."""

    @property
    def watched(self) -> bool:
        """Whether progress bars are shown."""
        ...

    def note(self, text: str) -> None:
        """Receive a sentence that the user should read."""

    def stage(self, text: str) -> None:
        """Receive the current stage."""

    def pause(self) -> None:
        """Stop drawing: another library is about to draw its own progress."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that is ready to load, under the name that records show."""

    folder: ModelFolder
    name: str
    revision: str | None  # the commit of a hub model, or the step that was asked for

    @property
    def title(self) -> str:
        """What people are shown: the name, its commit, and the adapters merged into it."""
        commit = f" ({self.revision[:12]})" if self.revision else ""
        return " + ".join([f"{self.name}{commit}", *(a.title for a in self.folder.adapters)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Finds models; its methods download and export them if need be.

    `adapters` name what is merged into the model. `precision` is one, or "auto". `auto_precision`
    is what that exports; a model folder is taken in whatever precision it has.

    All methods raise:
        ModelError: if there is no such model, or it cannot be had or converted.
        UsageError: if a revision, step, adapter or precision is asked of a model that has no such
            choice.
    """

    listener: Listener
    revision: str | None = None
    step: int | None = None
    adapters: tuple[str, ...] = ()
    precision: str = AUTO
    auto_precision: str = "fp32"
    offline: bool = False
    hub: Hub = _HUB
    scratch: Path | None = None  # an empty folder for the tokenizer, where that is all

    def find(self, name: str | None) -> StoredModel:
        """Return the model for `name`; None is the default."""
        return self._find_default() if name is None else self._find_named(name)

    def pull(self, name: str) -> StoredModel:
        """Return the newest model for `name`: the hub is asked even if the cache has one."""
        meaning = parse_name(name)
        for adapter in map(parse_adapter, self.adapters):
            if isinstance(adapter, str) and not self._is_offline():
                keep_commit(adapter, _MAIN, self._download(adapter, _MAIN, ADAPTER).name)
        if isinstance(meaning, str) and not self._is_offline():
            self._refuse_step(name)
            return self._export_snapshot(meaning, self._download(meaning, self._branch, CHECKPOINT))
        return self._find_named(name)

    @contextmanager
    def find_tokenizer(self, name: str | None) -> Iterator[StoredModel]:
        """Give a model for its tokenizer alone: no weights are downloaded, nothing is converted.

        It is one that `find` gave before, whatever its precision, or what the checkpoint's other
        files make; its folder may be gone after the block.
        """
        with tempfile.TemporaryDirectory(prefix="gpt2-") as scratch:
            yield replace(self, scratch=Path(scratch)).find(name)

    def recall_source(self, name: str) -> Mapping[str, Any] | None:
        """Return what a model folder for `name` is made of, if that is known without the network.

        `name` is no model folder itself.
        """
        meaning = parse_name(name)
        if isinstance(meaning, str):
            commit = read_commit(meaning, self._branch)
            found = None if commit is None else hub_checkpoint(meaning, Path(commit))
        elif meaning == STARTER_FOLDER:
            found = _starter_checkpoint()
        else:
            found = local_checkpoint(meaning, self.step)
        adapted = None if found is None else self._recall_adapted(found)
        return None if adapted is None else adapted.source

    def find_checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint for `name`; one that is exported already is a UsageError."""
        meaning = parse_name(name)
        if isinstance(meaning, str):
            self._refuse_step(name)
            return self._adapt(hub_checkpoint(meaning, self._find_model_snapshot(meaning)))
        self._refuse_revision(name)
        if is_model_folder(meaning):
            raise UsageError(f"{meaning} is already a model folder; expected a checkpoint")
        return self._adapt(local_checkpoint(meaning, self.step))

    def _find_default(self) -> StoredModel:
        """Return the default model; until it has run here once, the starter may replace it.

        If the user names a revision or an adapter, nothing replaces the model.
        """
        memory = recall_default()
        may_stand_in = not memory.has_run and self.revision is None and not self.adapters
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
        if isinstance(meaning, str):
            self._refuse_step(name)
            return self._find_hub_model(meaning)
        self._refuse_revision(name)
        if meaning == STARTER_FOLDER:
            self._refuse_step(name)
            return self._find_starter()
        return self._find_local(meaning)

    def _refuse_revision(self, name: str) -> None:
        if self.revision is not None:
            raise UsageError(f"{name} is not a hub model", "leave it out", option="revision")

    def _refuse_step(self, name: str) -> None:
        if self.step is not None:
            fault = f"{name} is not a folder with steps of TensorFlow checkpoints"
            raise UsageError(fault, "leave it out", option="step")

    def _find_starter(self) -> StoredModel:
        return StoredModel(self._find_or_export(_starter_checkpoint()), STARTER, None)

    def _find_local(self, path: Path) -> StoredModel:
        if not is_model_folder(path):
            checkpoint = local_checkpoint(path, self.step)
            revision = None if self.step is None else name_step(self.step)
            return StoredModel(self._find_or_export(checkpoint), str(path), revision)
        self._refuse_step(str(path))
        folder = read_model_folder(path)
        if self.adapters:
            raise UsageError(
                option="adapter",
                expected="none: nothing can be merged into a model folder",
                found=self.adapters[0],
                advice="name its checkpoint as the model, or export that with the adapter",
            )
        if self.scratch is None and self.precision not in (AUTO, folder.precision):
            raise UsageError(
                option="precision",
                expected=f"{folder.precision}, the precision of this model folder",
                found=self.precision,
                advice="export its checkpoint again for another precision",
            )
        return StoredModel(folder, str(path), None)

    def _find_hub_model(self, repo: str) -> StoredModel:
        """Look on this machine first: an earlier export of this revision needs no network."""
        commit = read_commit(repo, self._branch)
        if commit is not None:
            found = self._find_exported(hub_checkpoint(repo, Path(commit)))
            if found is not None:
                return StoredModel(found, repo, commit)
        return self._export_snapshot(repo, self._find_model_snapshot(repo))

    def _export_snapshot(self, repo: str, snapshot: Path) -> StoredModel:
        folder = self._find_or_export(hub_checkpoint(repo, snapshot))
        keep_commit(repo, self._branch, snapshot.name)
        return StoredModel(folder, repo, snapshot.name)

    @property
    def _branch(self) -> str:
        return self.revision or _MAIN

    def _find_model_snapshot(self, repo: str) -> Path:
        wanted = CHECKPOINT if self.scratch is None else TOKENIZER
        return self._find_snapshot(repo, self._branch, wanted)

    def _find_snapshot(self, repo: str, revision: str, wanted: Contents) -> Path:
        """Return what is wanted: from the hub's own cache if it is there, else downloaded."""
        self.listener.stage(f"looking for {repo}")
        snapshot = self.hub.find_snapshot(repo, revision, wanted)
        missing = snapshot and wanted.find_missing(snapshot)
        if snapshot is not None and not missing:
            return snapshot
        if self._is_offline():
            fault = f"{repo} is not on this machine"
            if missing:
                fault = f"the download of {repo} is incomplete: missing {', '.join(missing)}"
            switch = find_offline_variable() or "{offline}"
            raise HubError(f"{fault}, and offline mode is on", f"run once without {switch}")
        return self._download(repo, revision, wanted)

    def _download(self, repo: str, revision: str, wanted: Contents) -> Path:
        self.listener.pause()
        return self.hub.download(repo, revision, progress=self.listener.watched, wanted=wanted)

    def _adapt(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint with its adapters, downloaded if need be."""
        adapters = []
        for adapter in map(parse_adapter, self.adapters):
            if isinstance(adapter, str):
                snapshot = self._find_snapshot(adapter, _MAIN, ADAPTER)
                adapters.append(hub_checkpoint(adapter, snapshot))
            else:
                adapters.append(local_checkpoint(adapter))
        return replace(checkpoint, adapters=tuple(adapters))

    def _recall_adapted(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return what `_adapt` did before, of which an export may be there; None if unknown."""
        adapters = []
        for adapter in map(parse_adapter, self.adapters):
            commit = read_commit(adapter, _MAIN) if isinstance(adapter, str) else None
            if isinstance(adapter, Path):
                adapters.append(local_checkpoint(adapter))
            elif commit is not None:
                adapters.append(hub_checkpoint(adapter, Path(commit)))
            else:
                return None
        return replace(checkpoint, adapters=tuple(adapters))

    def _is_offline(self) -> bool:
        return self.offline or find_offline_variable() is not None

    def _find_exported(self, checkpoint: Checkpoint) -> ModelFolder | None:
        adapted = self._recall_adapted(checkpoint)
        if adapted is None:
            return None
        wanted = [self._export_precision] if self.scratch is None else PRECISIONS
        found = (find_exported(adapted, precision) for precision in wanted)
        return next((folder for folder in found if folder is not None), None)

    @property
    def _export_precision(self) -> str:
        return self.auto_precision if self.precision == AUTO else self.precision

    def _find_or_export(self, checkpoint: Checkpoint) -> ModelFolder:
        found = self._find_exported(checkpoint)
        if found is not None:
            return found
        adapted = self._adapt(checkpoint)
        if self.scratch is not None:
            return write_tokenizer(adapted, self.scratch)
        note, stage = self.listener.note, self.listener.stage
        folder = export_once(adapted, self._export_precision, note=note, stage=stage)
        for adapter in adapted.adapters:
            if "repo" in adapter.origin:
                keep_commit(adapter.origin["repo"], _MAIN, adapter.folder.name)
        return folder


def _starter_checkpoint() -> Checkpoint:
    """Return the starter, known by what is in its files, since each install dates them anew.

    To read its 12 MB takes about 10 ms.
    """
    paths = sorted(path for path in STARTER_FOLDER.iterdir() if path.suffix in _CHECKPOINT_SUFFIXES)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return Checkpoint(STARTER_FOLDER, {"name": STARTER, "sha256": digests})
