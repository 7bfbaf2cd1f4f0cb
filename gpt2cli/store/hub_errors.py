"""Turns what huggingface_hub and its HTTP library raise into one line with advice."""

import errno
import re
from json import JSONDecodeError
from typing import Final

from gpt2cli.errors import HubError

_ERROR_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_TOKEN: Final = (401, 403)
_TOO_MANY: Final = 429


def translate(repo: str, revision: str, error: Exception) -> HubError:
    """Return the error to raise for one that a request about `repo` met."""
    from huggingface_hub import errors

    if isinstance(error, (errors.LocalEntryNotFoundError, ValueError)) and error.__cause__:
        cause = error.__cause__  # it tells of its own cache; the reason is why it could not ask
        return translate(repo, revision, cause if isinstance(cause, Exception) else error)
    if isinstance(error, errors.GatedRepoError):
        return HubError(
            f"{repo} is gated", "accept its terms on the hub, then set HF_TOKEN to your token"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        reason = f"the hub has no model {repo}, or it is private"
        return HubError(reason, "check the name, or set HF_TOKEN")
    if isinstance(error, errors.RevisionNotFoundError):
        return HubError(f"{repo} has no revision {revision}", "leave out {revision} for main")
    if isinstance(error, errors.RemoteEntryNotFoundError):
        name = str(error.response.url).rpartition("/")[2]
        return HubError(f"the hub lists {name} in {repo} but does not give it", "try later")
    if isinstance(error, errors.HfHubHTTPError):
        return _translate_status(repo, error.response.status_code)
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return _translate_cache_fault(repo, error)
    if isinstance(error, errors.HFValidationError):
        return HubError(f"{repo} is no hub id", "expected owner/name as the hub has it")
    if isinstance(error, (JSONDecodeError, TypeError, LookupError, errors.FileMetadataError)):
        reason = f"what answered for the hub, asked for {repo}, is not the hub"
        advice = "check HF_ENDPOINT and the proxy, and whether the network wants a login first"
        return HubError(reason, advice)
    return _translate_failure(repo, error)


def _translate_status(repo: str, status: int) -> HubError:
    reason = f"the hub answered {status} for {repo}"
    if status in _NO_TOKEN:
        return HubError(reason, "set HF_TOKEN to a token that may read it")
    if status == _TOO_MANY:
        reason = f"{reason} (too many requests)"
        return HubError(reason, "wait some minutes, or set HF_TOKEN, with which more are allowed")
    return HubError(reason, "try later")


def _translate_cache_fault(repo: str, error: OSError) -> HubError:
    if error.errno in _DISK_FULL:
        return _tell_full_disk(repo)
    reason = f"{repo} could not be downloaded: {error.filename}: {error.strerror}"
    return HubError(reason, "set HF_HOME to a folder that can be written")


def _translate_failure(repo: str, error: Exception) -> HubError:
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return _tell_full_disk(repo)
    lines = str(error).strip().splitlines()
    words = _ERROR_NUMBER.sub("", lines[0]).rstrip(".") if lines else type(error).__name__
    reason = f"{repo} could not be downloaded ({words})"
    return HubError(reason, "check the connection, or name a folder with {model}")


def _tell_full_disk(repo: str) -> HubError:
    reason = f"{repo} could not be downloaded: the disk is full"
    return HubError(reason, "make room, or set HF_HOME to another place")
