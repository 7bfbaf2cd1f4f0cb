"""Turns what huggingface_hub and its HTTP library raise into one line with advice."""

import errno
import re
from json import JSONDecodeError
from typing import Final

from gpt2cli.errors import HubError

_ERROR_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")
_NO_TOKEN: Final = (401, 403)
_TOO_MANY: Final = 429


def translate(repo: str, revision: str, error: Exception) -> HubError:
    """Return the error to raise for an exception of a request about `repo`."""
    from huggingface_hub import errors

    cause = error.__cause__
    if isinstance(error, errors.LocalEntryNotFoundError | ValueError) and isinstance(
        cause, Exception
    ):
        # Its message is about its cache; the cause says why the hub could not be asked.
        return translate(repo, revision, cause)
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
    if status in _NO_TOKEN:
        return HubError(reason, "set HF_TOKEN to a token that may read it")
    if status == _TOO_MANY:
        advice = "wait some minutes, or set HF_TOKEN, which allows more"
        return HubError(f"{reason} (too many requests)", advice)
    return HubError(reason, "try later")
