"""The tool's folders, and what it remembers between runs: nothing that must not be lost."""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import platformdirs

from export.small_files import ReadError, read_object
from export.whole import replacing

_RETRY_SECONDS: Final = 600.0
_COMMIT: Final = re.compile("[0-9a-f]{40}")
_PROXIES: Final = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_ON_THE_WAY: Final = ("HF_ENDPOINT", "SSL_CERT_FILE", *_PROXIES, *map(str.lower, _PROXIES))


def cache_folder() -> Path:
    """Return the user's cache folder for this tool, which may not exist yet."""
    return platformdirs.user_cache_path("gpt2")


def state_folder() -> Path:
    """Return the folder for what is remembered between runs, which may not exist yet."""
    return platformdirs.user_state_path("gpt2")


def keep_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a small file, if it can be written."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(value).encode())


def read_commit(repo: str, revision: str) -> str | None:
    """Return the commit that a branch or tag meant when it was last downloaded, if it is known.

    A whole commit means itself.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    try:
        commit = read_object(_commit_file(repo, revision))["commit"]
    except (ReadError, LookupError):
        return None
    return commit if isinstance(commit, str) else None


def keep_commit(repo: str, revision: str, commit: str) -> None:
    """Remember what a branch or tag means."""
    keep_json(_commit_file(repo, revision), {"commit": commit})


def _commit_file(repo: str, revision: str) -> Path:
    name = f"{quote(revision, safe='')}.json"
    return cache_folder() / "refs" / repo.replace("/", "--") / name


@dataclass(frozen=True, slots=True)
class DefaultMemory:
    """Whether the default model ever ran here, and when its download last failed."""

    has_run: bool = False
    hub_failed_at: float = 0.0  # seconds since 1970
    hub_failure: str = ""
    way: str = ""  # to the hub, that failed

    @property
    def hub_failed_lately(self) -> bool:
        """Whether the hub failed so recently that asking it again would only cost time."""
        fresh = 0 <= time.time() - self.hub_failed_at < _RETRY_SECONDS
        return fresh and self.way == describe_way()


def recall_default() -> DefaultMemory:
    """Return what is remembered; nothing, if that cannot be read."""
    try:
        kept = read_object(_default_file())
        failed_at, failure = float(kept["hub_failed_at"]), str(kept["hub_failure"])
        return DefaultMemory(kept["has_run"] is True, failed_at, failure, str(kept["way"]))
    except (ReadError, ValueError, LookupError, TypeError):
        return DefaultMemory()


def remember_default(memory: DefaultMemory) -> None:
    """Keep `memory` for `recall_default`."""
    keep_json(_default_file(), asdict(memory))


def describe_way() -> str:
    """Return a digest of the variables about the hub and the proxy: a change means a new attempt.

    Not the values themselves, since a proxy's may hold a password.
    """
    said = {name: os.environ[name] for name in _ON_THE_WAY if name in os.environ}
    return hashlib.sha256(json.dumps(said).encode()).hexdigest() if said else ""


def _default_file() -> Path:
    return state_folder() / "default-model.json"
