"""Fields of a record that are no options: kept in its results, left out, or an error."""

from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.batch.config import ERROR, KEEP
from gpt2cli.errors import UsageError, shorten
from gpt2cli.prompt_options import OPTIONS

_KNOWN: Final = OPTIONS.keys() | {"prompt", "id"}
# What a result has beside them, at least at times.
_OF_RESULTS: Final = frozenset(
    (
        *("index", "completion", "finish_reason", "stop_sequence", "prompt_tokens"),
        *("truncated_prompt_tokens", "completion_tokens", "sample", "options", "context"),
        *("model", "revision", "adapters", "precision", "device", "fingerprint", "versions"),
        "error",
    )
)


def take_extras(record: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the fields of a record that its results are to have; `what`: one of EXTRA_FIELDS.

    Raises:
        UsageError: naming a field that may not be there, and those that may.
    """
    extras = {name: value for name, value in record.items() if name not in _KNOWN}
    if what == KEEP:
        taken = [name for name in extras if name in _OF_RESULTS]
        if taken:
            names = shorten(", ".join(taken))
            raise UsageError(f"a result has a {names} of its own", "give the field another name")
        return extras
    unknown = [name for name, value in extras.items() if value is not None]
    if unknown and what == ERROR:
        names, known = shorten(", ".join(unknown)), ", ".join(sorted(_KNOWN))
        advice = "{extra_fields} keep copies it into the result"
        raise UsageError(f"unknown option {names}; known are {known}", advice)
    return {}
