"""What is remembered of the default model: whether it ever ran, and when the hub last failed."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpt2cli.store.places import keep_json, state_folder

_RETRY_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class DefaultMemory:
    """Remembered between runs; nothing is lost if it cannot be kept."""

    has_run: bool = False
    hub_failed_at: float = 0.0  # seconds since 1970
    hub_failure: str = ""

    @property
    def hub_failed_lately(self) -> bool:
        """Whether asking the hub again so soon would only cost time."""
        return 0 <= time.time() - self.hub_failed_at < _RETRY_SECONDS


def recall_default() -> DefaultMemory:
    """Return what is remembered; nothing, if that cannot be read."""
    try:
        kept = json.loads(_path().read_bytes())
        failed_at, failure = float(kept["hub_failed_at"]), str(kept["hub_failure"])
        return DefaultMemory(kept["has_run"] is True, failed_at, failure)
    except (OSError, ValueError, LookupError, TypeError):
        return DefaultMemory()


def remember_default(memory: DefaultMemory) -> None:
    """Keep `memory`, if it can be kept."""
    keep_json(_path(), asdict(memory))


def _path() -> Path:
    return state_folder() / "default-model.json"
