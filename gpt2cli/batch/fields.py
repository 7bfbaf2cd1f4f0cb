"""What a JSON record may say: an object with a prompt, an id, and options with their types."""

from collections.abc import Mapping
from typing import Any, Final

from export.small_files import ReadError, find_half_pair, parse_json
from gpt2cli.config import OF_A_PROMPT
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.option_kinds import options_of
from gpt2cli.settings import Given

_OPTIONS: Final = {option.field: option for kind in OF_A_PROMPT for option in options_of(kind)}
_KNOWN: Final = _OPTIONS.keys() | {"prompt", "id"}


def read_object(text: str) -> dict[str, Any]:
    """Return a record's fields; null is not given.

    Texts in them may have half of a surrogate pair, for `refuse_half_pairs` to find.

    Raises:
        PromptError: if it is no JSON object.
    """
    try:
        value = parse_json(text, half_pairs=True)
    except ReadError as error:
        raise PromptError(f"the record {error}") from error
    if not isinstance(value, dict):
        raise PromptError('the record is no JSON object; expected {"prompt": …}')
    return {name: given for name, given in value.items() if given is not None}


def read_id(record: Mapping[str, Any]) -> Any:
    """Return the user's own id, which may be anything; None if there is none."""
    return record.get("id")


def read_prompt(record: Mapping[str, Any]) -> str:
    """Return the prompt.

    Raises:
        PromptError: if there is none.
    """
    prompt = record.get("prompt")
    if not isinstance(prompt, str):
        raise PromptError('the record has no prompt; expected "prompt" with a text')
    return prompt


def refuse_half_pairs(record: Mapping[str, Any]) -> None:
    """Refuse what no UTF-8 can write, in any text of a record.

    Raises:
        PromptError: showing it.
    """
    half = find_half_pair(record)
    if half is not None:
        raise PromptError(f"the record has half of a surrogate pair, {half}, which is no character")


def read_options(record: Mapping[str, Any]) -> dict[str, Given]:
    """Return a record's options by field.

    Raises:
        UsageError: naming the option that is unknown, of a wrong type, or out of range.
    """
    unknown = [name for name in record if name not in _KNOWN]
    if unknown:
        names = shorten(", ".join(unknown))
        raise UsageError(f"unknown option {names}; known are {', '.join(sorted(_KNOWN))}")
    own = {name: _OPTIONS[name].read(value) for name, value in record.items() if name in _OPTIONS}
    if own.get("choice") == ():
        raise UsageError(option="choice", expected="at least one text", found="an empty list")
    return {name: Given(value) for name, value in own.items()}
