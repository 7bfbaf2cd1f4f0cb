"""What a JSON record may say: an object with a prompt, an id, and options with their types."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, NoReturn

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
_DEEPEST: Final = 100  # levels of an id: it is written again, from deeper in the program


def read_object(text: str) -> dict[str, Any]:
    """Return a record's fields; of a key that is given twice the last counts, null is not given.

    Raises:
        PromptError: if it is no JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_read_number)
    except RecursionError as error:
        raise PromptError("the record is nested too deeply") from error
    except ValueError as error:
        raise PromptError(f"the record is not JSON: {_explain(error)}") from error
    if not isinstance(value, dict):
        raise PromptError('the record is no JSON object; expected {"prompt": …}')
    return {name: given for name, given in value.items() if given is not None}


def read_id(record: Mapping[str, Any]) -> Any:
    """Return the user's own id, which may be anything; None if there is none.

    Raises:
        PromptError: if it is nested too deeply to be written again.
    """
    identity = record.get("id")
    if _is_deeper(identity, _DEEPEST):
        raise PromptError(f"id: expected at most {_DEEPEST} levels of nesting")
    return identity


def read_prompt(record: Mapping[str, Any]) -> str:
    """Return the prompt.

    Raises:
        PromptError: if there is none.
    """
    prompt = record.get("prompt")
    if not isinstance(prompt, str):
        raise PromptError('the record has no prompt; expected "prompt" with a text')
    return prompt


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


def _explain(error: ValueError) -> str:
    """Say what is wrong with JSON, and where in the record: it is one line of the input."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (character {error.pos + 1} of the record)"
    if "digit" in str(error):  # CPython's limit, whose advice is for programmers
        return "a number has thousands of digits"
    return str(error)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number there")


def _read_number(text: str) -> float:
    """Return a number with a point or an exponent; refuse 1e999, which could not be written."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shorten(text)} is too large")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and objects are nested in more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    children = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(child, levels - 1) for child in children)
