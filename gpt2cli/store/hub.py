"""Downloads checkpoints from the Hugging Face hub; the only module that knows huggingface_hub.

A checkpoint in the hub's own cache is used without asking the network.
"""

import errno
import json
import logging
import os
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.errors import HubError

DEFAULT_REVISION: Final = "main"

# What a conversion reads beside the weights; everything else in a repository is left there.
_DESCRIPTIONS: Final = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
# The forms of weights, the preferred one first: a single file, or an index and its shards.
WEIGHTS: Final = (
    ("model.safetensors", None),
    ("model.safetensors.index.json", re.compile(r"model-\d+-of-\d+\.safetensors")),
    ("pytorch_model.bin", None),
    ("pytorch_model.bin.index.json", re.compile(r"pytorch_model-\d+-of-\d+\.bin")),
)
# The forms of tokenizers: all files of one.
_TOKENIZERS: Final = (("tokenizer.json",), ("vocab.json", "merges.txt"))
_ASK_SECONDS: Final = 4.0
_ERROR_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")


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
        folder = self._find_folder(repo, revision)
        if folder is None or _find_missing(folder):
            return None
        return Snapshot(folder, folder.name)

    def explain_missing(self, repo: str, revision: str) -> str:
        """Return why `find_downloaded` finds nothing, for the user."""
        folder = self._find_folder(repo, revision)
        if folder is None:
            return f"{repo} is not on this machine"
        return f"the download of {repo} is incomplete: missing {', '.join(_find_missing(folder))}"

    def _find_folder(self, repo: str, revision: str) -> Path | None:
        from huggingface_hub import errors, snapshot_download

        try:
            found = snapshot_download(
                repo,
                revision=revision,
                cache_dir=self.cache,
                allow_patterns=["config.json"],  # what else there is, is looked at here
                local_files_only=True,
            )
        except (OSError, ValueError, errors.CachedRepoTreeNotFoundError):
            return None
        return Path(found)

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
            files = _choose_files(repo, {sibling.rfilename for sibling in info.siblings or ()})
            # By its own name, not by its commit: so the hub's cache knows it by that name offline.
            found = snapshot_download(
                repo,
                revision=revision,
                cache_dir=self.cache,
                endpoint=self.endpoint,
                allow_patterns=files,
            )
        folder = Path(found)
        return Snapshot(folder, folder.name)


def is_offline() -> bool:
    """Tell whether the user's environment forbids the network, as huggingface_hub reads it."""
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return said.upper() in {"1", "ON", "YES", "TRUE"}


def _choose_files(repo: str, listed: Set[str]) -> list[str]:
    """Return the files that a conversion reads of those in a repository.

    Raises:
        HubError: if it cannot be converted for want of one.
    """
    descriptions = [name for name in _DESCRIPTIONS if name in listed]
    form = next(((name, shard) for name, shard in WEIGHTS if name in listed), None)
    if "config.json" not in listed or form is None:
        lacking = "config.json" if "config.json" not in listed else "model.safetensors"
        raise HubError(f"{repo} has no {lacking}", "expected a GPT-2 checkpoint")
    name, shard = form
    shards = [other for other in sorted(listed) if shard is not None and shard.fullmatch(other)]
    return [*descriptions, name, *shards]


def _find_missing(folder: Path) -> list[str]:
    """Return what a snapshot lacks to be converted; a download may have been cut at any file."""
    if not (folder / "config.json").exists():
        return ["config.json"]
    if not any(all((folder / name).exists() for name in form) for form in _TOKENIZERS):
        return ["tokenizer.json"]
    for name, shard in WEIGHTS:
        if (folder / name).exists():
            return _find_missing_shards(folder / name) if shard is not None else []
    return ["model.safetensors"]


def _find_missing_shards(index: Path) -> list[str]:
    try:
        shards = set(json.loads(index.read_bytes())["weight_map"].values())
        return sorted(str(shard) for shard in shards if not (index.parent / shard).exists())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [index.name]


@contextmanager
def _translated(repo: str, revision: str) -> Iterator[None]:
    """Turn what huggingface_hub and its HTTP library raise into one line."""
    from huggingface_hub import errors

    try:
        yield
    except HubError:
        raise
    except errors.GatedRepoError as error:
        advice = "accept its terms on the hub, then set HF_TOKEN to your token"
        raise HubError(f"{repo} is gated", advice) from error
    except errors.RepositoryNotFoundError as error:
        reason = f"the hub has no model {repo}, or it is private"
        raise HubError(reason, "check the name, or set HF_TOKEN") from error
    except errors.RevisionNotFoundError as error:
        reason = f"{repo} has no revision {revision}"
        raise HubError(reason, "leave out --revision for main") from error
    except errors.RemoteEntryNotFoundError as error:
        name = str(error.response.url).rpartition("/")[2]
        reason = f"the hub lists {name} in {repo} but does not give it"
        raise HubError(reason, "try later") from error
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "an error")
        advice = "set HF_TOKEN to a token that may read it" if status in (401, 403) else "try later"
        raise HubError(f"the hub answered {status} for {repo}", advice) from error
    except Exception as error:  # the HTTP library's own errors share no base with the hub's
        raise _translate_failure(repo, error) from error


def _translate_failure(repo: str, error: Exception) -> HubError:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        reason = f"{repo} could not be downloaded: the disk is full"
        return HubError(reason, "make room, or set HF_HOME to another place")
    lines = str(error).strip().splitlines()
    words = _ERROR_NUMBER.sub("", lines[0]).rstrip(".") if lines else type(error).__name__
    reason = f"{repo} could not be downloaded ({words})"
    return HubError(reason, "check the connection, or name a folder with --model")
