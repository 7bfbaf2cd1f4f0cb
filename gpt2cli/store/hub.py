"""Downloads checkpoints from the Hugging Face hub; only it and `hub_errors` know huggingface_hub.

A checkpoint in the hub's own cache is used without asking the network.
"""

import logging
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from export.whole import replacing
from gpt2cli.errors import HubError
from gpt2cli.store.answers import answer_within
from gpt2cli.store.hub_blobs import download_blob, drop_copied_blob
from gpt2cli.store.hub_errors import translate
from gpt2cli.store.hub_files import HubFile, choose_files, find_missing

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

DEFAULT_REVISION: Final = "main"

_SILENCE_SECONDS: Final = 4.0  # of the hub, in its answer to the first question
_ANSWER_SECONDS: Final = 10.0  # all of that answer, with the name server's
_OFFLINE_VARIABLES: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


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

    def find_downloaded(self, repo: str, revision: str, *, weights: bool = True) -> Snapshot | None:
        """Return the checkpoint from the hub's cache if all of it is there; asks no network.

        `weights`: whether those are needed, or the files that describe it are all.
        """
        folder = self._find_folder(repo, revision)
        if folder is None or find_missing(folder, weights=weights):
            return None
        return Snapshot(folder, folder.name)

    def explain_missing(self, repo: str, revision: str, *, weights: bool = True) -> str:
        """Return why `find_downloaded` finds nothing, for the user."""
        folder = self._find_folder(repo, revision)
        if folder is None:
            return f"{repo} is not on this machine"
        missing = ", ".join(find_missing(folder, weights=weights))
        return f"the download of {repo} is incomplete: missing {missing}"

    def _find_folder(self, repo: str, revision: str) -> Path | None:
        _check_library()
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

    def download(
        self, repo: str, revision: str, *, progress: bool, weights: bool = True
    ) -> Snapshot:
        """Download what lacks of a checkpoint, and what is there but not as the hub lists it.

        `progress` shows huggingface_hub's bar on stderr.

        Raises:
            HubError: if the hub cannot be reached or does not give it.
        """
        _check_library()
        from huggingface_hub.utils.tqdm import disable_progress_bars

        # Its warnings of retries and missing logins are told as errors, or not at all.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        try:
            info = answer_within(_ANSWER_SECONDS, lambda: self._ask(repo, revision))
            if info.sha is None:
                raise LookupError("the hub names no commit")
            listed = {file.name: file for file in _list_files(info)}
            descriptions, large = choose_files(repo, listed, weights=weights)
            disable_progress_bars()
            paths = [self._fetch(repo, info.sha, file) for file in descriptions]
            if progress:
                _show_progress()
            for file in large:
                download_blob(repo, info.sha, file, endpoint=self.endpoint, cache=self.cache)
                drop_copied_blob(self._fetch(repo, info.sha, file), file)
        except HubError:
            raise
        except Exception as error:  # the HTTP library's own errors share no base with the hub's
            raise translate(repo, revision, error) from error
        folder = paths[0].parent
        _remember(folder, revision)
        return Snapshot(folder, folder.name)

    def _ask(self, repo: str, revision: str) -> "ModelInfo":
        """Ask once, for the commit and all files of it: this fails fast without a network."""
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint).model_info(
            repo, revision=revision, files_metadata=True, timeout=_SILENCE_SECONDS
        )

    def _fetch(self, repo: str, commit: str, file: HubFile) -> Path:
        """Return a file that is what the hub lists.

        Not by `snapshot_download` (2.4.0): it downloads on threads, which Ctrl-C does not end.
        """
        from huggingface_hub import hf_hub_download

        def fetch(*, anew: bool) -> Path:
            return Path(
                hf_hub_download(
                    repo,
                    file.name,
                    revision=commit,
                    cache_dir=self.cache,
                    endpoint=self.endpoint,
                    force_download=anew,
                )
            )

        path = fetch(anew=False)
        if not file.is_whole(path):
            path = fetch(anew=True)
            if not file.is_whole(path):
                reason = f"{file.name} of {repo} did not arrive as the hub lists it"
                raise HubError(reason, "try later")
        return path


def _check_library() -> None:
    """Import huggingface_hub, which reads its settings from the environment meanwhile.

    Raises:
        HubError: if it does not stand one of them.
    """
    try:
        import huggingface_hub.constants  # noqa: F401
    except ValueError as error:
        reason = f"huggingface_hub does not start ({error})"
        raise HubError(
            reason, "check HF_ENDPOINT and the other variables that begin with HF_"
        ) from error


def is_offline() -> bool:
    """Tell whether the user's environment forbids the network, as huggingface_hub reads it."""
    return find_offline_variable() is not None


def find_offline_variable() -> str | None:
    """Return the variable that forbids the network; None if none does."""
    name = next((name for name in _OFFLINE_VARIABLES if os.environ.get(name)), "")
    return name if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} else None


def _list_files(info: "ModelInfo") -> list[HubFile]:
    return [
        HubFile(
            file.rfilename,
            size=file.size,
            sha256=file.lfs.sha256 if file.lfs is not None else None,
            blob_id=file.blob_id if file.lfs is None else None,
        )
        for file in info.siblings or ()
    ]


def _show_progress() -> None:
    from huggingface_hub.utils.tqdm import enable_progress_bars

    with warnings.catch_warnings(action="ignore"):  # the user's environment may forbid them
        enable_progress_bars()


def _remember(folder: Path, revision: str) -> None:
    """Let the hub's cache know a snapshot by its branch or tag, as huggingface_hub does.

    At the end: until all of it is there, the name means what it meant before.
    """
    if revision == folder.name:
        return
    reference = folder.parents[1] / "refs" / revision
    with suppress(OSError):
        reference.parent.mkdir(parents=True, exist_ok=True)
        with replacing(reference) as file:
            file.write(folder.name.encode())
