"""The program's surroundings: folders and their sizes, cached models, the hub."""

import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.store.catalogue import find_fault, list_cached, summarise_folder
from gpt2cli.store.exports import spare_models_folder
from gpt2cli.store.hub import answer_within
from gpt2cli.store.memory import cache_folder, state_folder

_HUB: Final = "https://huggingface.co"
_ASK_SECONDS: Final = 4.0
_SERVER_FAULTS: Final = 500  # HTTP statuses from here on


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of ours, or of huggingface_hub's."""

    name: str
    path: str
    size: int  # bytes
    free: int  # bytes
    writable: bool


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """Whether the hub can be reached; None: it was not asked."""

    endpoint: str
    reached: bool | None
    seconds: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model in the cache, or a folder of the user's own, and what is wrong with it."""

    name: str
    precision: str
    path: str
    size: int  # bytes
    fault: str | None
    cached: bool = True


def list_places() -> dict[str, Path]:
    """Return our folders and the hub's own cache, by name."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    hub = Path(os.environ.get("HF_HOME") or Path(home) / "huggingface") / "hub"
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or hub)
    spare = spare_models_folder()
    return {
        "cache": cache_folder(),
        **({"spare": spare} if spare.exists() else {}),
        "state": state_folder(),
        "hub-cache": hub.expanduser(),
    }


def look_at(name: str, path: Path) -> Place:
    """Return a folder's size, and whether it can be written or created; nothing is written."""
    size = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                size += os.lstat(os.path.join(folder, file)).st_size  # noqa: PTH118
            except OSError:
                continue
    there = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = 0
    return Place(name, str(path), size, free, os.access(there, os.W_OK | os.X_OK))


def check_models(*, verify: bool, folders: Sequence[Path] = ()) -> Iterator[CheckedModel]:
    """Yield the cached models and the user's own `folders` with what is wrong with them.

    `verify` reads them whole.
    """
    cached = list_cached()
    for number, model in enumerate([*cached, *map(summarise_folder, folders)]):
        fault = find_fault(model) if verify else model.fault
        facts = (model.name, model.precision, str(model.path), model.size, fault)
        yield CheckedModel(*facts, cached=number < len(cached))


def ask_hub(*, offline: bool, ask: Callable[[str], None] | None = None) -> HubAnswer:
    """Ask the hub for an answer of any kind, for some seconds at most."""
    endpoint = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    if offline:
        return HubAnswer(endpoint, None)
    started = time.monotonic()
    try:
        answer_within(_ASK_SECONDS, lambda: (ask or _ask)(endpoint))
    except Exception as error:  # a proxy's, a name server's, TLS's
        reason = getattr(error, "reason", error)
        told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return HubAnswer(endpoint, False, reason=told)
    return HubAnswer(endpoint, True, time.monotonic() - started)


def _ask(endpoint: str) -> None:
    """Ask for the default model's config: some networks let the hub's front page through alone."""
    url = f"{endpoint}/openai-community/gpt2/resolve/main/config.json"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method="HEAD"), timeout=_ASK_SECONDS
        ):
            return
    except urllib.error.HTTPError as error:
        if error.code >= _SERVER_FAULTS:
            raise
