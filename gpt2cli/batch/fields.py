"""What a JSON record may say: an object with a prompt, an id, and options with their types."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from export.small_files import ReadError, find_half_pair, parse_json
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.generation import GenerationConfig, Overflow, Request
from gpt2cli.sampling import BeamConfig, ConstraintConfig, SamplingConfig
from gpt2cli.settings import check_types

_CONFIGURATIONS: Final = (SamplingConfig, GenerationConfig, BeamConfig, ConstraintConfig)
_OPTIONS: Final = frozenset(
    {"seed", "samples", "allow_special", "greedy", "logprobs"}
    | {field.name for kind in _CONFIGURATIONS for field in fields(kind)}
)
_TEXTS: Final = frozenset({"stop", "ban", "choice"})  # that take several texts
_KNOWN: Final = _OPTIONS | {"prompt", "id"}


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


def read_options(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's options with the types of the configurations' fields.

    `greedy` stays, and if it is true the temperature is 0.

    Raises:
        UsageError: naming the option that is unknown or of a wrong type.
    """
    unknown = [name for name in record if name not in _KNOWN]
    if unknown:
        names = shorten(", ".join(unknown))
        raise UsageError(f"unknown option {names}; known are {', '.join(sorted(_KNOWN))}")
    own = {name: value for name, value in record.items() if name in _OPTIONS}
    if not isinstance(own.get("greedy", False), bool):
        raise UsageError("--greedy: expected true or false")
    if "json_schema" in own:
        own["json_schema"] = _read_schema(own["json_schema"])
    for kind in (*_CONFIGURATIONS, Request):
        check_types(kind, own)
    if own.get("greedy"):
        own["temperature"] = 0.0
    for name in _TEXTS & own.keys():
        own[name] = _read_texts(name, own[name])
    if own.get("choice") == ():
        raise UsageError("--choice: expected at least one text, found an empty list")
    if "logit_bias" in own:
        own["logit_bias"] = _read_biases(own["logit_bias"])
    if "overflow" in own:
        own["overflow"] = _read_overflow(own["overflow"])
    return own


def _read_texts(name: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"--{name}: expected a text or a list of texts")
    return tuple(texts)


def _read_schema(value: Any) -> str:
    if not isinstance(value, dict):
        raise UsageError("--json-schema: expected a JSON schema, an object")
    return json.dumps(value, ensure_ascii=False)


def _read_biases(value: Any) -> tuple[tuple[str, float], ...]:
    biases = value.values() if isinstance(value, dict) else [None]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in biases):
        raise UsageError('--logit-bias: expected an object {"ID_OR_TEXT": number, …}')
    return tuple(value.items())


def _read_overflow(value: Any) -> Overflow:
    if value not in list(Overflow):
        raise UsageError(f"--overflow: expected one of {', '.join(Overflow)}")
    return Overflow(value)
