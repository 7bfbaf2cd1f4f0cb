"""Downloads checkpoints from the Hugging Face hub; the only module that knows huggingface_hub.

A checkpoint in the hub's own cache is used without asking the network.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.errors import HubError

DEFAULT_REVISION: Final = "main"

# What a conversion reads; everything else in a repository is left there.
_FILES: Final[tuple[str, ...]] = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
_NEEDED: Final = ("config.json", "model.safetensors")
_ASK_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A downloaded checkpoint: its folder, and the commit it is of."""

    folder: Path
    commit: str


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub and its cache on this machine; None is what huggingface_hub's environment says."""

    endpoint: str | None = None
    cache: Path | None = None

    def find_downloaded(self, repo: str, revision: str) -> Snapshot | None:
        """Return the checkpoint from the hub's cache if all of it is there; asks no network."""
        from huggingface_hub import errors, snapshot_download

        try:
            found = snapshot_download(
                repo,
                revision=revision,
                cache_dir=self.cache,
                allow_patterns=list(_FILES),
                local_files_only=True,
            )
        except (OSError, ValueError, errors.CachedRepoTreeNotFoundError):
            return None
        folder = Path(found)
        if not all((folder / name).exists() for name in _NEEDED):
            return None
        return Snapshot(folder, folder.name)

    def download(self, repo: str, revision: str, *, progress: bool) -> Snapshot:
        """Download a checkpoint; `progress` shows huggingface_hub's bar on stderr.

        Raises:
            HubError: if the hub cannot be reached or does not give it.
        """
        with _translated(repo, revision):
            from huggingface_hub import HfApi, snapshot_download
            from huggingface_hub.utils.tqdm import disable_progress_bars

            # Its warnings of retries and missing logins are told as errors below, or not at all.
            logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
            if not progress:
                disable_progress_bars()
            # Asked first and once: it answers fast without a network, and names the files.
            api = HfApi(endpoint=self.endpoint)
            info = api.model_info(repo, revision=revision, timeout=_ASK_SECONDS)
            listed = {sibling.rfilename for sibling in info.siblings or ()}
            missing = [name for name in _NEEDED if name not in listed]
            if missing:
                raise HubError(f"{repo} at {revision} has no {' and no '.join(missing)}")
            # By its own name, not by its commit: so the hub's cache knows it by that name offline.
            found = snapshot_download(
                repo,
                revision=revision,
                cache_dir=self.cache,
                endpoint=self.endpoint,
                allow_patterns=[name for name in _FILES if name in listed],
            )
        folder = Path(found)
        return Snapshot(folder, folder.name)


def is_offline() -> bool:
    """Tell whether the user's environment forbids the network, as huggingface_hub reads it."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


@contextmanager
def _translated(repo: str, revision: str) -> Iterator[None]:
    """Turn what huggingface_hub and its HTTP library raise into one line."""
    from huggingface_hub import errors

    try:
        yield
    except HubError:
        raise
    except errors.GatedRepoError as error:
        raise HubError(
            f"{repo} is gated: accept its terms on the hub, then set HF_TOKEN to your token"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"the hub has no model {repo}, or it is private: check the name, or set HF_TOKEN"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(
            f"{repo} has no revision {revision}; leave out --revision for main"
        ) from error
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "an error")
        advice = "set HF_TOKEN to a token that may read it" if status in (401, 403) else "try later"
        raise HubError(f"the hub answered {status} for {repo}; {advice}") from error
    except Exception as error:  # the HTTP library's own errors share no base with the hub's
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise HubError(
            f"{repo} could not be downloaded: {reason or type(error).__name__}; "
            "check the connection, or name a folder with --model"
        ) from error
