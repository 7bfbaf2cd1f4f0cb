"""The folder of exported models: the cache's, or a private one where that cannot be written."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpt2cli.errors import ModelError
from gpt2cli.store.memory import cache_folder


def spare_models_folder() -> Path:
    """Return the private temporary folder of models, for where the cache cannot be written."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"gpt2-cache-{owner}"


def readable_models_folders() -> list[Path]:
    """Return the folders that may hold exported models: the cache's, and the temporary one."""
    spare = spare_models_folder()
    with suppress(OSError):
        if _find_foreign_owner(spare) is None:
            return [_models_folder(), spare]
    return [_models_folder()]


def _models_folder() -> Path:
    return cache_folder() / "models"


def writable_models_folder(note: Callable[[str], None]) -> Path:
    """Return the cache's folder of models, or a private temporary one if it cannot be written."""
    usual = _models_folder()
    reason = _try_write(usual)
    if reason is None:
        return usual
    other = spare_models_folder()
    other_reason = _try_write(other) or _find_foreign_owner(other)
    if other_reason is not None:
        raise ModelError(
            f"no place for exported models: {usual}: {reason}; {other}: {other_reason}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        )
    note(f"{usual} cannot be written ({reason}); using {other}")
    return other


def _try_write(folder: Path) -> str | None:
    """Return why nothing can be written in `folder`; None if it can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _find_foreign_owner(folder: Path) -> str | None:
    """Guard against a folder that somebody else put into the shared temporary directory."""
    found = folder.lstat()
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        return "it belongs to, or can be written by, somebody else"
    return None
