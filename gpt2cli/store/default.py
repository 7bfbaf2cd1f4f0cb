"""What is remembered of the default model: whether it ever ran, and when the hub last failed."""

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from export.small_files import ReadError, read_object
from gpt2cli.store.places import keep_json, state_folder

_RETRY_SECONDS: Final = 600.0
_PROXIES: Final = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_ON_THE_WAY: Final = ("HF_ENDPOINT", "SSL_CERT_FILE", *_PROXIES, *map(str.lower, _PROXIES))


@dataclass(frozen=True, slots=True)
class DefaultMemory:
    """Remembered between runs; nothing is lost if it cannot be kept."""

    has_run: bool = False
    hub_failed_at: float = 0.0  # seconds since 1970
    hub_failure: str = ""
    way: str = ""  # to the hub, that failed

    @property
    def hub_failed_lately(self) -> bool:
        """Whether asking the hub again so soon, on the same way, would only cost time."""
        fresh = 0 <= time.time() - self.hub_failed_at < _RETRY_SECONDS
        return fresh and self.way == describe_way()


def recall_default() -> DefaultMemory:
    """Return what is remembered; nothing, if that cannot be read."""
    try:
        kept = read_object(_path())
        failed_at, failure = float(kept["hub_failed_at"]), str(kept["hub_failure"])
        return DefaultMemory(kept["has_run"] is True, failed_at, failure, str(kept["way"]))
    except (ReadError, ValueError, LookupError, TypeError):
        return DefaultMemory()


def remember_default(memory: DefaultMemory) -> None:
    """Keep `memory`, if it can be kept."""
    keep_json(_path(), asdict(memory))


def describe_way() -> str:
    """Return a digest of the environment's say in the way to the hub: who changes it tries again.

    Not the values themselves, since a proxy's may hold a password.
    """
    said = {name: os.environ[name] for name in _ON_THE_WAY if name in os.environ}
    return hashlib.sha256(json.dumps(said).encode()).hexdigest() if said else ""


def _path() -> Path:
    return state_folder() / "default-model.json"
