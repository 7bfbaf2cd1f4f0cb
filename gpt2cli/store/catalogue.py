"""What is in the cache: lists, describes and removes exported models."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from export.whole import sync_folder
from gpt2cli.errors import ModelError
from gpt2cli.model_folder import MergedAdapter, is_model_folder, read_manifest, read_model_folder
from gpt2cli.store.exports import describe_folder
from gpt2cli.store.models_folder import readable_models_folders
from gpt2cli.store.names import HUB_ALIASES, STARTER, name_step, parse_name


@dataclass(frozen=True, slots=True)
class CachedModel:
    """One exported model in the cache, or a model folder of the user's own."""

    name: str
    revision: str | None  # the commit of a hub model, or the step that was asked for
    precision: str
    size: int  # bytes
    path: Path
    fault: str | None = None  # why it cannot be used
    adapters: tuple[MergedAdapter, ...] = ()
    cached: bool = True


def list_cached() -> list[CachedModel]:
    """Return every exported model in the cache, by name; damaged ones too, with their fault.

    Also those in the temporary folder, used when the cache cannot be written.
    """
    folders = [path for models in readable_models_folders() for path in _list_folders(models)]
    return sorted(map(summarise_folder, folders), key=lambda model: (model.name, str(model.path)))


def summarise_folder(path: Path) -> CachedModel:
    """Return what `models list` shows of a model folder, or its fault if it is damaged."""
    name, revision, precision = _read_name(path)
    size, fault = 0, None
    adapters: tuple[MergedAdapter, ...] = ()
    try:
        size = sum(file.stat().st_size for file in path.glob("[!.]*"))
        adapters = read_model_folder(path).adapters
    except ModelError as error:
        fault = str(error)
    except OSError as error:
        fault = f"{path}: {error.strerror}"
    return CachedModel(name, revision, precision, size, path, fault, adapters)


def find_cached(
    name: str,
    *,
    revision: str | None = None,
    step: int | None = None,
    precision: str | None = None,
    folders: bool = False,
) -> list[CachedModel]:
    """Return the cached models that `name` means, of that revision, step and precision if given.

    `revision` is the beginning of a commit. With `folders` a name may also be that of a model
    folder of the user's own.

    Raises:
        ModelError: if there is none.
    """
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 (pathlib's raises for an unknown user)
    if folders and name not in (STARTER, *HUB_ALIASES) and is_model_folder(folder):
        named, where = [summarise_folder(folder)], "a model folder"
    else:
        cached = list_cached()
        wanted = _find_cached_name(name, cached)
        named = [model for model in cached if wanted in (model.name, model.path.name)]
        where = "in the cache"
    found = [
        model
        for model in named
        if (revision is None or (model.revision or "").startswith(revision))
        and (step is None or model.revision == name_step(step))
        and precision in (None, model.precision)
    ]
    if not found:
        if not named and folders and os.path.isdir(folder):  # noqa: PTH112
            raise ModelError(f"{name} is not converted yet; `gpt2 models pull {name}` does it")
        other = " of that revision, step or precision" if named else ""
        raise ModelError(f"{name} is not {where}{other}; `gpt2 models list` shows what is")
    return found


def describe_model(model: CachedModel) -> dict[str, Any]:
    """Return what `models show` adds to the list; reads the whole model."""
    fault = find_fault(model)
    if fault is not None:
        raise ModelError(fault)
    tokens = map(asdict, read_model_folder(model.path).special_tokens)
    return {"special_tokens": [*tokens], **describe_folder(model.path)}


def find_fault(model: CachedModel) -> str | None:
    """Return why a model cannot be used, if need be from its files' recorded hashes."""
    if model.fault is not None:
        return model.fault
    try:
        damage = read_model_folder(model.path).find_damage()
    except ModelError as error:
        return str(error)
    return damage and f"{model.path}: {damage}; export again"


def remove_cached(models: Sequence[CachedModel]) -> None:
    """Remove exported models from the cache."""
    for model in models:
        # Renamed first: what a kill leaves is then not a model, and the next export removes it.
        doomed = model.path.with_name(f".{model.path.name}.removed.partial")
        shutil.rmtree(doomed, ignore_errors=True)
        try:
            model.path.rename(doomed)
            sync_folder(doomed.parent)
            shutil.rmtree(doomed)
        except OSError as error:
            raise ModelError(f"cannot remove {model.path}: {error.strerror}") from error


def _list_folders(models: Path) -> list[Path]:
    try:
        return [path for path in models.glob("[!.]*") if path.is_dir()]
    except OSError:
        return []


def _find_cached_name(name: str, cached: Sequence[CachedModel]) -> str:
    """Return the name under which the cache knows what the user calls `name`."""
    if name == STARTER or any(name == model.path.name for model in cached):
        return name
    meaning = parse_name(name)
    return meaning if isinstance(meaning, str) else str(meaning.resolve())


def _read_name(path: Path) -> tuple[str, str | None, str]:
    """Return name, revision and precision, also of a model that is damaged."""
    try:
        manifest = read_manifest(path)
        source, precision = manifest["source"], str(manifest["precision"])
        if "repo" in source:
            return str(source["repo"]), str(source["commit"]), precision
        step = source.get("step")
        revision = None if step is None else name_step(step)
        return str(source.get("name") or source.get("path", path)), revision, precision
    except (ModelError, LookupError, TypeError, AttributeError):
        return path.name, None, "?"
