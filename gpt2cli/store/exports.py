"""The cache of exported models: made on first use, once, and checked again where it will run.

The only module that imports the exporter, and only when something is to be exported or checked.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.whole import locked, remove_leftovers
from gpt2cli.errors import ModelError
from gpt2cli.model_folder import GRAPH_VERSION, ModelFolder, read_model_folder
from gpt2cli.store.hub_files import find_damaged
from gpt2cli.store.places import readable_models_folders, writable_models_folder

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ExportKey:
    """What an exported model is known by: its source, precision and graph version."""

    label: str  # for people who look into the cache
    origin: Mapping[str, Any]  # what identifies the source, as export.json keeps it
    precision: str

    @property
    def folder_name(self) -> str:
        """The model folder's name in the cache: the same one when a local checkpoint changes."""
        source = self.origin.get("path", self.origin)
        key = json.dumps([source, self.precision, GRAPH_VERSION], sort_keys=True)
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        label = re.sub(r"[^\w.-]+", "--", self.label)[-60:]
        return f"{label}-{self.precision}-{digest}"


def find_exported(key: ExportKey) -> ModelFolder | None:
    """Return the model folder from the cache if it is there, whole, and of the source as it is."""
    for models in readable_models_folders():
        with suppress(ModelError):
            folder = read_model_folder(models / key.folder_name)
            if folder.source == key.origin:
                return folder
    return None


def export_once(checkpoint: Path, key: ExportKey, *, note: Report, stage: Report) -> ModelFolder:
    """Return the exported model, converting the checkpoint if the cache has it not.

    Processes that ask at the same moment wait for one of them. What was exported of a local
    checkpoint before it changed is replaced.

    Raises:
        ModelError: if the checkpoint cannot be converted or the cache not written.
    """
    found = find_exported(key)
    if found is not None:
        return found
    models = writable_models_folder(note)
    folder = models / key.folder_name
    remove_leftovers(models)
    stage(f"waiting for another gpt2 that exports {key.label}")
    with locked(models / f".{key.folder_name}.lock"):
        found = find_exported(key)
        if found is not None:
            return found
        _make_way(folder, key.label, note)
        note(f"exporting {key.label} for its first use (kept in {models})")
        export_to(
            checkpoint,
            folder,
            precision=key.precision,
            origin=key.origin,
            force=True,
            note=note,
            stage=stage,
        )
        return read_model_folder(folder)


def _make_way(folder: Path, label: str, note: Report) -> None:
    """Remove what is in a new export's place, unless that can take the place of it."""
    if not folder.exists():
        return
    try:
        read_model_folder(folder)
        note(f"{label} has changed since it was exported; its old export goes")
    except ModelError:
        note(f"the exported {label} is damaged; exporting it again")
        shutil.rmtree(folder)


def export_to(
    checkpoint: Path,
    out: Path,
    *,
    precision: str,
    origin: Mapping[str, Any] | None = None,
    full_check: bool = False,
    force: bool = False,
    note: Report = lambda text: None,
    stage: Report = lambda text: None,
) -> None:
    """Convert a checkpoint folder to the model folder `out`.

    Raises:
        ModelError: if it cannot be read, converted or written.
    """
    with _telling_damage(checkpoint, origin), _translated():
        from export.convert import convert
        from export.storage import Precision

        convert(
            checkpoint,
            out,
            precision=Precision(precision),
            origin=origin,
            full_check=full_check,
            force=force,
            report=stage,
            note=note,
        )


def write_tokenizer(checkpoint: Path, folder: Path, origin: Mapping[str, Any]) -> ModelFolder:
    """Return a model folder without graph and weights, written into the empty `folder`.

    Raises:
        ModelError: if the checkpoint's configuration or tokenizer cannot be read, or not written.
    """
    from export.manifest import write_tokenizer_folder

    try:
        with _telling_damage(checkpoint, origin), _translated():
            write_tokenizer_folder(checkpoint, folder, graph_version=GRAPH_VERSION, origin=origin)
    except OSError as error:
        raise ModelError(f"the tokenizer of {checkpoint} cannot be read: {error}") from error
    return read_model_folder(folder)


def local_origin(checkpoint: Path) -> dict[str, Any]:
    """Return what identifies a local checkpoint: its path, and each file's size and time.

    Raises:
        ModelError: if the folder cannot be read.
    """
    try:
        paths = sorted(
            p for p in checkpoint.iterdir() if p.is_file() and not p.name.startswith(".")
        )
        stats = {path.name: path.stat() for path in paths}
    except OSError as error:
        raise ModelError(f"{checkpoint} cannot be read: {error.strerror}") from error
    return {
        "path": str(checkpoint.resolve()),
        "files": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()},
    }


def check_again(folder: ModelFolder, provider: str) -> None:
    """Run the short check once where another onnxruntime or provider passed it, and note that.

    Raises:
        ModelError: if the graph is wrong there.
    """
    import onnxruntime

    if (onnxruntime.__version__, provider) in folder.checked:
        return
    with _translated():
        from export.check import recheck

        recheck(folder.path, provider)


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return what `export` says of a model folder: config, parameters, inputs and outputs.

    Raises:
        ModelError: if its files cannot be read.
    """
    from export.folder_weights import describe

    try:
        with _translated():
            return describe(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder} cannot be read: {error}; export again") from error


@contextmanager
def _telling_damage(checkpoint: Path, origin: Mapping[str, Any] | None) -> Iterator[None]:
    """Where a download cannot be converted, tell if that is because it is damaged."""
    try:
        yield
    except ModelError as error:
        repo = (origin or {}).get("repo")
        damaged = ", ".join(find_damaged(checkpoint)) if repo else ""
        if not damaged:
            raise
        mended = f"`gpt2 models pull {repo}` mends it"
        raise ModelError(f"the download of {repo} is damaged: {damaged}; {mended}") from error


@contextmanager
def _translated() -> Iterator[None]:
    from export.errors import ExportError

    try:
        yield
    except ExportError as error:
        raise ModelError(str(error)) from error
