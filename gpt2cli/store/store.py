"""Finds the model folder for a name, and which model runs when none is named."""

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpt2cli.errors import HubError, UsageError
from gpt2cli.model_folder import ModelFolder, is_model_folder, read_model_folder
from gpt2cli.store.default import DefaultMemory, describe_way, recall_default, remember_default
from gpt2cli.store.exports import (
    ExportKey,
    export_once,
    find_exported,
    local_origin,
    write_tokenizer,
)
from gpt2cli.store.hub import DEFAULT_REVISION, Hub, Snapshot, find_offline_variable, is_offline
from gpt2cli.store.listener import Listener
from gpt2cli.store.names import (
    DEFAULT_MODEL,
    STARTER,
    FolderName,
    HubName,
    StarterName,
    parse_name,
)
from gpt2cli.store.references import Reference

STARTER_FOLDER: Final = Path(__file__).parent.parent / "starter"
_CHECKPOINT_SUFFIXES: Final = (".json", ".safetensors")
AUTO: Final = "auto"
CPU_PRECISION: Final = "fp32"
_ANY: Final = "any"
_PRECISIONS: Final = (CPU_PRECISION, "fp16", "int8", "int4")


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that is ready to load, under the name that records tell."""

    folder: ModelFolder
    name: str
    revision: str | None  # the commit of a hub model


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint on this machine, and what identifies it in export.json."""

    folder: Path
    origin: Mapping[str, Any]


def find_checkpoint(
    name: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    listener: Listener,
    hub: Hub | None = None,
) -> FoundCheckpoint:
    """Return the checkpoint for `name`, downloaded if need be.

    Raises:
        ModelError: if there is none, or it cannot be had.
        UsageError: if a revision is asked of a model that has none, or it is exported already.
    """
    meaning = parse_name(name)
    if isinstance(meaning, HubName):
        offline = offline or is_offline()
        wanted = _Wanted(revision, AUTO, CPU_PRECISION, offline, listener, hub or Hub())
        snapshot = _find_snapshot(meaning.repo, wanted)
        return FoundCheckpoint(snapshot.folder, _hub_origin(meaning.repo, snapshot.commit))
    if revision is not None:
        raise UsageError(f"{name} is not a hub model", "leave it out", option="revision")
    folder = STARTER_FOLDER if isinstance(meaning, StarterName) else meaning.path
    if is_model_folder(folder):
        raise UsageError(f"{folder} is a model folder already; expected a checkpoint")
    return FoundCheckpoint(folder, local_origin(folder))


def pull_model(
    name: str,
    *,
    revision: str | None = None,
    precision: str = AUTO,
    auto_precision: str = CPU_PRECISION,
    listener: Listener,
    hub: Hub | None = None,
) -> StoredModel:
    """Return the model for `name` as it is now: the hub is asked even if the cache has one.

    `auto_precision` is what `auto` exports.

    Raises:
        ModelError: if there is no such model, or it cannot be had or converted.
        UsageError: if a revision or precision is asked of a model that has no such choice.
    """
    meaning = parse_name(name)
    wanted = _Wanted(revision, precision, auto_precision, is_offline(), listener, hub or Hub())
    if isinstance(meaning, HubName) and not wanted.offline:
        return _export_snapshot(meaning.repo, _download(meaning.repo, wanted), wanted)
    return _find_named(name, wanted)


def find_model(
    name: str | None,
    *,
    revision: str | None = None,
    precision: str = AUTO,
    auto_precision: str = CPU_PRECISION,
    offline: bool = False,
    listener: Listener,
    hub: Hub | None = None,
) -> StoredModel:
    """Return the model for `name`, downloaded and exported if need be; None is the default.

    `precision` is one, or "auto". `auto_precision` is what that exports; of a model folder it takes
    whatever that has.

    Raises:
        ModelError: if there is no such model, or it cannot be had or converted.
        UsageError: if a revision or precision is asked of a model that has no such choice.
    """
    offline = offline or is_offline()
    wanted = _Wanted(revision, precision, auto_precision, offline, listener, hub or Hub())
    if name is None:
        return _find_default(wanted)
    return _find_named(name, wanted)


@contextmanager
def find_tokenizer(
    name: str | None,
    *,
    revision: str | None = None,
    offline: bool = False,
    listener: Listener,
    hub: Hub | None = None,
) -> Iterator[StoredModel]:
    """Give a model for its tokenizer alone: no weights are downloaded and nothing is converted.

    It is one that `find_model` gave before, whatever its precision, or what the checkpoint's other
    files make; its folder may be gone after the block.

    Raises:
        ModelError, UsageError: as `find_model`.
    """
    offline = offline or is_offline()
    with tempfile.TemporaryDirectory(prefix="gpt2-") as scratch:
        wanted = _Wanted(
            revision, _ANY, CPU_PRECISION, offline, listener, hub or Hub(), Path(scratch)
        )
        yield _find_default(wanted) if name is None else _find_named(name, wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    revision: str | None
    precision: str  # or "auto", or "any" of those in the cache
    auto_precision: str
    offline: bool
    listener: Listener
    hub: Hub
    scratch: Path | None = None  # an empty folder for the tokenizer, where that is all

    @property
    def hub_revision(self) -> str:
        return self.revision or DEFAULT_REVISION

    @property
    def export_precision(self) -> str:
        return self.auto_precision if self.precision in (AUTO, _ANY) else self.precision

    @property
    def precisions(self) -> Sequence[str]:
        """Those of an exported model that will do."""
        return _PRECISIONS if self.precision == _ANY else [self.export_precision]


def _find_named(name: str, wanted: _Wanted) -> StoredModel:
    meaning = parse_name(name)
    if isinstance(meaning, HubName):
        return _find_hub_model(meaning.repo, wanted)
    if wanted.revision is not None:
        raise UsageError(f"{name} is not a hub model", "leave it out", option="revision")
    if isinstance(meaning, StarterName):
        return _find_starter(wanted)
    return _find_local(meaning, wanted)


def _find_default(wanted: _Wanted) -> StoredModel:
    """Return the default model; until it has once run here, the starter may stand in for it.

    A revision of it is named by the user, as a model is: nothing stands in for that.
    """
    memory = recall_default()
    may_stand_in = not memory.has_run and wanted.revision is None
    remembered = may_stand_in and memory.hub_failed_lately and not wanted.offline
    try:
        if remembered:
            wanted = replace(wanted, offline=True)
        model = _find_named(DEFAULT_MODEL, wanted)
    except HubError as error:
        if not may_stand_in:
            raise
        reason = error.fault
        if remembered:
            reason = f"{memory.hub_failure}; `gpt2 models pull {DEFAULT_MODEL}` asks again"
        if not wanted.offline:
            remember_default(DefaultMemory(False, time.time(), reason, describe_way()))
        wanted.listener.note(
            f"using the bundled {STARTER} model, which writes children's stories: {reason}"
        )
        return _find_starter(wanted)
    if not memory.has_run and wanted.scratch is None:
        remember_default(DefaultMemory(has_run=True))
    return model


def _find_starter(wanted: _Wanted) -> StoredModel:
    folder = _exported(STARTER_FOLDER, STARTER, _starter_origin(), wanted)
    return StoredModel(folder, STARTER, None)


def _find_local(name: FolderName, wanted: _Wanted) -> StoredModel:
    path = name.path
    if not is_model_folder(path):
        exported = _exported(path, path.resolve().name, local_origin(path), wanted)
        return StoredModel(exported, str(path), None)
    folder = read_model_folder(path)
    if wanted.precision not in (AUTO, _ANY, folder.precision):
        raise UsageError(
            option="precision",
            expected=f"{folder.precision}, which the model folder is in",
            found=wanted.precision,
            advice="export its checkpoint again for another precision",
        )
    return StoredModel(folder, str(path), None)


def _find_hub_model(repo: str, wanted: _Wanted) -> StoredModel:
    """Look here first: what was exported from this revision before needs no network."""
    commit = Reference(repo, wanted.hub_revision).read()
    if commit is not None:
        found = _find_cached(repo, _hub_origin(repo, commit), wanted)
        if found is not None:
            return StoredModel(found, repo, commit)
    return _export_snapshot(repo, _find_snapshot(repo, wanted), wanted)


def _export_snapshot(repo: str, snapshot: Snapshot, wanted: _Wanted) -> StoredModel:
    folder = _exported(snapshot.folder, repo, _hub_origin(repo, snapshot.commit), wanted)
    Reference(repo, wanted.hub_revision).write(snapshot.commit)
    return StoredModel(folder, repo, snapshot.commit)


def _find_snapshot(repo: str, wanted: _Wanted) -> Snapshot:
    """Return the hub's checkpoint: from the hub's own cache if it is there, else downloaded."""
    wanted.listener.stage(f"looking for {repo}")
    weights = wanted.scratch is None
    snapshot = wanted.hub.find_downloaded(repo, wanted.hub_revision, weights=weights)
    if snapshot is not None:
        return snapshot
    if wanted.offline:
        missing = wanted.hub.explain_missing(repo, wanted.hub_revision, weights=weights)
        variable = find_offline_variable()
        fault = f"{missing}, and {variable or 'offline mode'} forbids the network"
        raise HubError(fault, f"run once without {variable or '{offline}'}")
    return _download(repo, wanted)


def _download(repo: str, wanted: _Wanted) -> Snapshot:
    wanted.listener.pause()
    return wanted.hub.download(
        repo,
        wanted.hub_revision,
        progress=wanted.listener.watched,
        weights=wanted.scratch is None,
    )


def _starter_origin() -> dict[str, Any]:
    """Return what identifies the starter: what is in its files, since each install dates them anew.

    To read its 12 MB takes about 10 ms.
    """
    paths = sorted(path for path in STARTER_FOLDER.iterdir() if path.suffix in _CHECKPOINT_SUFFIXES)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return {"name": STARTER, "sha256": digests}


def _hub_origin(repo: str, commit: str) -> dict[str, str]:
    return {"repo": repo, "commit": commit}


def _find_cached(label: str, origin: Mapping[str, Any], wanted: _Wanted) -> ModelFolder | None:
    keys = (ExportKey(label, origin, precision) for precision in wanted.precisions)
    return next((found for found in map(find_exported, keys) if found is not None), None)


def _exported(
    checkpoint: Path, label: str, origin: Mapping[str, Any], wanted: _Wanted
) -> ModelFolder:
    found = _find_cached(label, origin, wanted)
    if found is not None:
        return found
    if wanted.scratch is not None:
        return write_tokenizer(checkpoint, wanted.scratch, origin)
    key, listener = ExportKey(label, origin, wanted.export_precision), wanted.listener
    return export_once(checkpoint, key, note=listener.note, stage=listener.stage)
