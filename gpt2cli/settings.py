"""Where an option's value comes from: the user, else the model's own defaults, else built in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from gpt2cli.errors import ModelError, UsageError

T = TypeVar("T")

# Keys of generation_config.json that are honoured -> our option's field. do_sample, max_length
# and task_specific_params are not: this tool samples unless told otherwise.
_FROM_MODEL: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "max_new_tokens": "max_new_tokens",
}


@dataclass(frozen=True, slots=True)
class Settings(Generic[T]):
    """A configuration, and which of its values are the model's own."""

    config: T
    from_model: Mapping[str, Any]


def settle(
    config_type: type[T], given: Mapping[str, Any], generation_config: Mapping[str, Any]
) -> Settings[T]:
    """Build a `config_type` from what the user gave (None: nothing) and from the model's defaults.

    Raises:
        UsageError: if a value of the user's is out of range.
        ModelError: if a value of the model's is.
    """
    known = set(getattr(config_type, "__dataclass_fields__", {}))
    own = {
        ours: generation_config[theirs]
        for theirs, ours in _FROM_MODEL.items()
        if ours in known and generation_config.get(theirs) is not None and given.get(ours) is None
    }
    try:
        config_type(**own)
    except (UsageError, TypeError) as error:
        raise ModelError(f"the model's generation_config.json: {error}") from error
    chosen = {name: value for name, value in given.items() if name in known and value is not None}
    return Settings(config_type(**(own | chosen)), own)
