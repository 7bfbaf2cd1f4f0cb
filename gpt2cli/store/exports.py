"""The cache of exported models: made on first use, once, and checked again where it will run.

The only module that imports the exporter, and only when something is to be exported or checked.
What that cannot read, convert, check or write is a ModelError.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from export.errors import list_some
from export.tensorflow_steps import find_steps
from export.whole import locked, remove_leftovers, replacing
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.model_folder import (
    GRAPH_VERSION,
    IDENTITIES,
    MANIFEST_FILE,
    ModelFolder,
    kept_identities,
    read_manifest,
    read_model_folder,
)
from gpt2cli.store.hub_files import find_damaged
from gpt2cli.store.models_folder import readable_models_folders, writable_models_folder

Report = Callable[[str], None]

_NO_STEPS: Final = "a folder with steps of TensorFlow checkpoints"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on this machine, or an adapter, and what identifies it in export.json."""

    folder: Path
    origin: Mapping[str, Any]
    adapters: tuple["Checkpoint", ...] = ()  # merged into it, one after the other

    @property
    def source(self) -> Mapping[str, Any]:
        """What identifies what is made of it."""
        if not self.adapters:
            return self.origin
        return {**self.origin, "adapters": [adapter.origin for adapter in self.adapters]}

    @property
    def label(self) -> str:
        """What people call it."""
        path = self.origin.get("path")
        own = Path(path).name if path else str(self.origin.get("repo") or self.origin["name"])
        return " with ".join([own, *(adapter.label for adapter in self.adapters)])

    @property
    def identity(self) -> list[Any]:
        """What stays the same when a local one changes."""
        origins = [one.origin for one in (self, *self.adapters)]
        return [{k: v for k, v in origin.items() if k != "files"} for origin in origins]


def local_checkpoint(folder: Path, step: int | None = None) -> Checkpoint:
    """Return a checkpoint of the user's own: known by its path, and each file's size and time.

    With `step` it is one of the TensorFlow checkpoints in the folder, or a UsageError.
    """
    with _translated(folder):
        names = (path for path in folder.iterdir() if path.is_file())
        stats = {path.name: path.stat() for path in sorted(names) if path.name[0] != "."}
        steps = find_steps(folder)
    files = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    origin = {"path": str(folder.resolve()), "files": files}
    if step is None:
        return Checkpoint(folder, origin)
    if step not in steps:
        there = f"one of the steps {list_some([*map(str, steps)])}" if steps else _NO_STEPS
        raise UsageError(option="step", expected=there, found=step)
    return Checkpoint(folder, {**origin, "step": step})


def hub_checkpoint(repo: str, snapshot: Path) -> Checkpoint:
    """Return a checkpoint of the hub: known by repository and commit, which names the snapshot."""
    return Checkpoint(snapshot, {"repo": repo, "commit": snapshot.name})


def find_exported(checkpoint: Checkpoint, precision: str) -> ModelFolder | None:
    """Return the model folder from the cache if it is there, whole, and of the checkpoint as it is.

    The checkpoint's own folder need not be there.
    """
    for models in readable_models_folders():
        with suppress(ModelError):
            folder = read_model_folder(models / _choose_name(checkpoint, precision))
            if folder.source == checkpoint.source:
                return folder
    return None


def _choose_name(checkpoint: Checkpoint, precision: str) -> str:
    """Return a model folder's name in the cache: the same one when a local checkpoint changes."""
    key = json.dumps([*checkpoint.identity, precision, GRAPH_VERSION], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    # At most 60 characters, so that name, precision and digest fit into a file name of 255 bytes.
    label = re.sub(r"[^\w.-]+", "--", checkpoint.label)[-60:]
    return f"{label}-{precision}-{digest}"


def export_once(
    checkpoint: Checkpoint, precision: str, *, note: Report, stage: Report
) -> ModelFolder:
    """Return the exported model, converting the checkpoint if it is not in the cache.

    Processes that ask at the same moment wait for one of them. What was exported of a local
    checkpoint before it changed is replaced.
    """
    found = find_exported(checkpoint, precision)
    if found is not None:
        return found
    models, label = writable_models_folder(note), checkpoint.label
    folder = models / _choose_name(checkpoint, precision)
    remove_leftovers(models)
    stage(f"waiting for another gpt2 that exports {label}")
    with locked(models / f".{folder.name}.lock"):
        found = find_exported(checkpoint, precision)
        if found is not None:
            return found
        _make_way(folder, label, note)
        note(f"exporting {label} for its first use (kept in {models})")
        export_to(checkpoint, folder, precision=precision, force=True, note=note, stage=stage)
        return read_model_folder(folder)


def _make_way(folder: Path, label: str, note: Report) -> None:
    """Remove what is in the way of a new export, unless the export can replace it."""
    if not folder.exists():
        return
    try:
        read_model_folder(folder)
        note(f"{label} has changed since it was exported; its old export is replaced")
    except ModelError:
        note(f"the exported {label} is damaged; exporting it again")
        shutil.rmtree(folder)


def export_to(
    checkpoint: Checkpoint,
    out: Path,
    *,
    precision: str,
    portable: bool = False,
    full_check: bool = False,
    force: bool = False,
    note: Report,
    stage: Report,
) -> None:
    """Convert a checkpoint to the model folder `out`."""
    with _translated(checkpoint.folder, checkpoint):
        from export.convert import convert
        from export.storage import Precision

        convert(
            checkpoint.folder,
            out,
            step=checkpoint.origin.get("step"),
            adapters=[adapter.folder for adapter in checkpoint.adapters],
            precision=Precision(precision),
            portable=portable,
            origin=checkpoint.source,
            full_check=full_check,
            force=force,
            report=stage,
            note=note,
        )


def write_tokenizer(checkpoint: Checkpoint, out: Path) -> ModelFolder:
    """Return a model folder without graph and weights, written into the empty folder `out`."""
    with _translated(checkpoint.folder, checkpoint):
        from export.manifest import write_tokenizer_folder

        write_tokenizer_folder(
            checkpoint.folder,
            out,
            adapters=[adapter.folder for adapter in checkpoint.adapters],
            graph_version=GRAPH_VERSION,
            origin=checkpoint.source,
        )
    return read_model_folder(out)


def check_again(folder: ModelFolder, provider: str) -> None:
    """Run the short check once where another onnxruntime or provider passed it, and note that."""
    import onnxruntime

    if (onnxruntime.__version__, provider) in folder.checked:
        return
    with _translated(folder.path):
        from export.check import recheck

        recheck(folder.path, provider)


def recall_identities(folder: ModelFolder, conditions: Mapping[str, str]) -> Mapping[str, Any]:
    """Return what was kept of a model folder under these conditions; nothing if there is none."""
    return next((kept for kept in folder.identities if conditions.items() <= kept.items()), {})


def keep_identities(
    folder: ModelFolder, conditions: Mapping[str, str], found: Mapping[str, Any]
) -> None:
    """Keep in `export.json` what was found; if that cannot be written, it is found each time."""
    from export.manifest import as_bytes

    manifest = read_manifest(folder.path)
    entries = kept_identities(manifest)
    others = [entry for entry in entries if not conditions.items() <= entry.items()]
    manifest[IDENTITIES] = [*others, {**conditions, **found}]
    with suppress(OSError), replacing(folder.path / MANIFEST_FILE) as file:
        file.write(as_bytes(manifest))


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return what `export` says of a model folder: config, parameters, inputs and outputs."""
    with _translated(folder):
        from export.folder_weights import describe

        return describe(folder)


@contextmanager
def _translated(folder: Path, checkpoint: Checkpoint | None = None) -> Iterator[None]:
    """Raise faults of a folder as a ModelError, which says so if a download is damaged."""
    from export.errors import ExportError

    try:
        yield
    except ExportError as error:
        if checkpoint is not None:
            _refuse_damaged(checkpoint, error)
        raise ModelError(str(error)) from error
    except OSError as error:
        raise ModelError(f"{folder} cannot be read: {error.strerror or error}") from error


def _refuse_damaged(checkpoint: Checkpoint, error: Exception) -> None:
    """Raise a ModelError if what was downloaded of a checkpoint and its adapters is damaged."""
    for one in (checkpoint, *checkpoint.adapters):
        repo = one.origin.get("repo")
        damaged = ", ".join(find_damaged(one.folder)) if repo else ""
        if damaged:
            as_adapter = f"MODEL {{adapter}} {repo}"
            pulled = repo if one is checkpoint else as_adapter
            fault = f"the download of {repo} is damaged: {damaged}"
            raise ModelError(fault, f"`gpt2 models pull {pulled}` repairs it") from error
