"""Where an option's value comes from: the user, else the model's own defaults, else built in.

What the user gives is settled before: a record or `/set`, a flag, the environment, the config file
(`gpt2cli.commands.user_defaults`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from gpt2cli.errors import ModelError, UsageError, shorten

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

# Keys of generation_config.json that are honoured -> our option's field. do_sample, max_length
# and task_specific_params are not: this tool samples unless told otherwise.
FROM_MODEL: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "max_new_tokens": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
}

# A configuration field's type -> what JSON may give for it, and how that is called.
_JSON_TYPES: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    float: ((int, float), "a number"),
    int: ((int,), "a whole number"),
    int | None: ((int,), "a whole number"),
    str | None: ((str,), "a text"),
    bool: ((bool,), "true or false"),
}


@dataclass(frozen=True, slots=True)
class Settings(Generic[T]):
    """A configuration, and which of its values are the model's own."""

    config: T
    from_model: Mapping[str, Any]


def settle(
    config_type: type[T],
    given: Mapping[str, Any],
    generation_config: Mapping[str, Any],
    *,
    built_in: Mapping[str, Any] = MappingProxyType({}),
) -> Settings[T]:
    """Build a `config_type` from what the user gave (None: nothing) and from the model's defaults.

    `built_in` takes the place of the type's own defaults.

    Raises:
        UsageError: if a value of the user's is out of range.
        ModelError: if a value of the model's is.
    """
    known = {field.name for field in fields(config_type)}
    own = {
        ours: generation_config[theirs]
        for theirs, ours in FROM_MODEL.items()
        if ours in known and generation_config.get(theirs) is not None and given.get(ours) is None
    }
    chosen = {name: value for name, value in given.items() if name in known and value is not None}
    usual = {name: value for name, value in built_in.items() if name in known}
    defaults = asdict(config_type(**(usual | chosen)))  # whatever is wrong here is the user's
    try:
        check_types(config_type, own)
        own = _give_way(own, defaults)
        return Settings(config_type(**(usual | own | chosen)), own)
    except UsageError as error:
        raise ModelError(f"the model's generation_config.json: {error}") from error


def _give_way(own: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's values, its limits brought into agreement with those that hold anyway.

    Its least number of tokens is never more than the most allowed, as in Hugging Face; its most
    is never less than the least that the user asked for.
    """
    fitting = dict(own)
    if "max_new_tokens" in own and 0 <= own["max_new_tokens"] < others["min_new_tokens"]:
        fitting["max_new_tokens"] = others["min_new_tokens"]
    if "min_new_tokens" in own:
        most = fitting.get("max_new_tokens", others["max_new_tokens"])
        fitting["min_new_tokens"] = min(own["min_new_tokens"], most)
    return fitting


def check_types(config_type: "type[DataclassInstance]", own: Mapping[str, Any]) -> None:
    """Check what a JSON text said; options of the command line have their types already.

    Raises:
        UsageError: naming the option, as the configuration itself does for ranges.
    """
    for field in fields(config_type):
        if field.name not in own or field.type not in _JSON_TYPES:
            continue
        allowed, wanted = _JSON_TYPES[field.type]
        value = own[field.name]
        is_flag = isinstance(value, bool)  # which Python takes for a whole number too
        if not isinstance(value, allowed) or is_flag is not (allowed == (bool,)):
            option = field.name.replace("_", "-")
            raise UsageError(f"--{option}: expected {wanted}, found {shorten(json.dumps(value))}")
