"""Downloads checkpoints from the Hugging Face hub by huggingface_hub, and resumes downloads."""

import errno
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from export.whole import give_name, replacing
from gpt2cli.errors import HubError
from gpt2cli.store.hub_files import CHECKPOINT, Contents, HubFile, find_blob

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_SILENCE_SECONDS: Final = 4.0  # of the hub, in its answer to the first question
_ANSWER_SECONDS: Final = 10.0  # all of that answer, with the name server's
_ERROR_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")
_OFFLINE_VARIABLES: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub and its cache on this machine; None takes huggingface_hub's own setting.

    A snapshot is the folder of a downloaded checkpoint, named by its commit.
    """

    endpoint: str | None = None
    cache: Path | None = None

    def find_snapshot(self, repo: str, revision: str, wanted: Contents = CHECKPOINT) -> Path | None:
        """Return what the hub's cache has of a checkpoint, complete or not, without the network."""
        _check_library()
        from huggingface_hub import try_to_load_from_cache

        try:
            config = try_to_load_from_cache(repo, wanted.config, self.cache, revision)
        except (OSError, ValueError):
            return None
        return Path(config).parent if isinstance(config, str) else None

    def download(
        self, repo: str, revision: str, *, progress: bool, wanted: Contents = CHECKPOINT
    ) -> Path:
        """Return the snapshot, after downloading what is missing or not as the hub lists it.

        `progress` shows huggingface_hub's bar on stderr.

        Raises:
            HubError: if the hub cannot be reached or refuses.
        """
        _check_library()
        from huggingface_hub.utils.tqdm import disable_progress_bars

        # Its warnings of retries and missing logins become errors here, or do not matter.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        disable_progress_bars()
        try:
            info = answer_within(_ANSWER_SECONDS, lambda: self._ask(repo, revision))
            if info.sha is None:
                raise LookupError("the hub names no commit")
            for file in wanted.choose(repo, _list_files(info)):
                if file.sha256 and progress:
                    _show_progress()
                snapshot = self._fetch(repo, info.sha, file).parent
        except HubError:
            raise
        except Exception as error:  # the HTTP library's own errors share no base with the hub's
            raise _translate(repo, revision, error) from error
        _remember(snapshot, revision)
        return snapshot

    def _ask(self, repo: str, revision: str) -> "ModelInfo":
        """Ask once, for the commit and all files of it: this fails fast without a network."""
        from huggingface_hub import HfApi

        _log.info("asking the hub for the files of %s, revision %s", repo, revision)
        return HfApi(endpoint=self.endpoint).model_info(
            repo, revision=revision, files_metadata=True, timeout=_SILENCE_SECONDS
        )

    def _fetch(self, repo: str, commit: str, file: HubFile) -> Path:
        """Return a file that is what the hub lists; one in the cache may be damaged."""
        path = self._fetch_once(repo, commit, file)
        if not file.is_whole(path):
            for damaged in (find_blob(path), path):
                damaged.unlink(missing_ok=True)
            path = self._fetch_once(repo, commit, file)
            if not file.is_whole(path):
                raise HubError(f"{file.name} of {repo} is not what the hub lists", "try later")
        return path

    def _fetch_once(self, repo: str, commit: str, file: HubFile) -> Path:
        """Return a file from the hub's cache, downloaded if it is not there.

        Not by `snapshot_download` (2.4.0): it downloads on threads, which Ctrl-C does not end.
        """
        from huggingface_hub import hf_hub_download, try_to_load_from_cache

        cached = try_to_load_from_cache(repo, file.name, self.cache, commit)
        if isinstance(cached, str):
            _log.info("%s of %s is in the hub's cache", file.name, repo)
            return Path(cached)
        _log.info("downloading %s of %s, %s bytes", file.name, repo, file.size)
        blob = self._fetch_blob(repo, commit, file) if file.sha256 else None
        found = hf_hub_download(
            repo, file.name, revision=commit, cache_dir=self.cache, endpoint=self.endpoint
        )
        path = Path(found)
        if blob is not None and not path.is_symlink():  # a copy, where links cannot be made
            blob.unlink(missing_ok=True)
        return path

    def _fetch_blob(self, repo: str, commit: str, file: HubFile) -> Path:
        """Put a large file into the hub's cache, continuing what an earlier download left.

        huggingface_hub 2.4.0 always begins a file anew: `_download_to_tmp_and_move` removes what
        it has when it is interrupted. But what lies in its cache under a file's hash it takes for
        the file, and `http_get` goes on with one. The name until then is that of earlier versions.
        """
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        root = Path(self.cache or constants.HF_HUB_CACHE)
        name = repo_folder_name(repo_id=repo, repo_type="model")
        blob, locks = root / name / "blobs" / str(file.sha256), root / ".locks" / name
        partial = blob.with_name(f"{blob.name}.incomplete")
        for folder in (blob.parent, locks):
            folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / f"{file.sha256}.lock"):  # the one of huggingface_hub itself
            if not blob.exists():
                self._go_on(partial, repo, commit, file)
                give_name(partial, blob)
        return blob

    def _go_on(self, partial: Path, repo: str, commit: str, file: HubFile) -> None:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        with partial.open("ab") as stream:
            if file.size is not None and stream.tell() > file.size:
                stream.truncate(0)
                stream.seek(0)
            http_get(
                hf_hub_url(repo, file.name, revision=commit, endpoint=self.endpoint),
                stream,
                resume_size=stream.tell(),
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.name,
            )


def answer_within(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """Return or raise what `ask` does; if it takes too long it is abandoned.

    It runs on a thread: our time-out does not reach a silent name server, nor does Ctrl-C.

    Raises:
        TimeoutError: if there is no answer by then.
    """
    future: Future[_Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(timeout=seconds)
    except TimeoutError as error:
        if future.done():
            raise
        raise TimeoutError(f"no answer within {seconds:.0f} s") from error


def find_offline_variable() -> str | None:
    """Return the variable that switches offline mode on, as huggingface_hub reads it; or None."""
    name = next((name for name in _OFFLINE_VARIABLES if os.environ.get(name)), "")
    return name if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} else None


def _check_library() -> None:
    """Import huggingface_hub, which reads its settings from the environment meanwhile."""
    try:
        import huggingface_hub.constants  # noqa: F401
    except ValueError as error:
        raise HubError(
            f"huggingface_hub does not start ({error})",
            "check HF_ENDPOINT and the other variables that begin with HF_",
        ) from error


def _list_files(info: "ModelInfo") -> dict[str, HubFile]:
    return {
        file.rfilename: HubFile(
            file.rfilename, file.size, file.lfs.sha256 if file.lfs else file.blob_id
        )
        for file in info.siblings or ()
    }


def _show_progress() -> None:
    from huggingface_hub.utils.tqdm import enable_progress_bars

    with warnings.catch_warnings(action="ignore"):  # the user's environment may forbid them
        enable_progress_bars()


def _remember(snapshot: Path, revision: str) -> None:
    """Let the hub's cache know a snapshot by its branch or tag, as huggingface_hub does.

    At the end: until all of it is there, the name means what it meant before.
    """
    if revision == snapshot.name:
        return
    reference = snapshot.parents[1] / "refs" / revision
    with suppress(OSError):
        reference.parent.mkdir(parents=True, exist_ok=True)
        with replacing(reference) as file:
            file.write(snapshot.name.encode())


def _translate(repo: str, revision: str, error: Exception) -> HubError:
    """Return the error to raise for an exception of a request about `repo`."""
    from huggingface_hub import errors

    cause = error.__cause__
    if isinstance(error, errors.LocalEntryNotFoundError | ValueError) and isinstance(
        cause, Exception
    ):
        # Its message is about its cache; the cause says why the hub could not be asked.
        return _translate(repo, revision, cause)
    lost = f"{repo} could not be downloaded"
    match error:
        case errors.GatedRepoError():
            advice = "accept its terms on the hub, then set HF_TOKEN to your token"
            return HubError(f"{repo} is gated", advice)
        case errors.RepositoryNotFoundError():
            reason = f"the hub has no model {repo}, or it is private"
            return HubError(reason, "check the name, or set HF_TOKEN")
        case errors.RevisionNotFoundError():
            return HubError(f"{repo} has no revision {revision}", "leave out {revision} for main")
        case errors.RemoteEntryNotFoundError():
            name = str(error.response.url).rpartition("/")[2]
            return HubError(f"the hub lists {name} in {repo} but does not give it", "try later")
        case errors.HfHubHTTPError():
            return _translate_status(repo, error.response.status_code)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return HubError(
                f"{lost}: the disk is full",
                "free some space, or set HF_HOME to a folder on another disk",
            )
        case OSError() if error.errno is not None and error.filename is not None:
            advice = "set HF_HOME to a folder that can be written"
            return HubError(f"{lost}: {error.filename}: {error.strerror}", advice)
        case errors.HFValidationError():
            return HubError(f"{repo} is not a hub id", "expected owner/name as the hub has it")
        case JSONDecodeError() | TypeError() | LookupError() | errors.FileMetadataError():
            return HubError(
                f"the answer about {repo} did not come from the hub",
                "check HF_ENDPOINT and the proxy, and whether the network requires a login first",
            )
    lines = str(error).strip().splitlines()
    words = _ERROR_NUMBER.sub("", lines[0]).rstrip(".") if lines else type(error).__name__
    return HubError(f"{lost} ({words})", "check the connection, or name a folder with {model}")


def _translate_status(repo: str, status: int) -> HubError:
    reason = f"the hub answered {status} for {repo}"
    if status in (401, 403):
        return HubError(reason, "set HF_TOKEN to a token that may read it")
    if status == 429:
        advice = "wait some minutes, or set HF_TOKEN, which allows more"
        return HubError(f"{reason} (too many requests)", advice)
    return HubError(reason, "try later")
