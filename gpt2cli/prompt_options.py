"""The options that a single prompt can have of its own: as JSON gives them, and their texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gpt2cli.config import OF_A_PROMPT, Overflow
from gpt2cli.declarations import options_of
from gpt2cli.errors import UsageError
from gpt2cli.generation.requests import make_request, prepare
from gpt2cli.model_folder import ModelShape
from gpt2cli.settings import Given, Settings
from gpt2cli.tokenizer import Tokenizer

OPTIONS: Final = {option.field: option for group in OF_A_PROMPT for option in options_of(group)}


def read_options(fields: Mapping[str, Any]) -> dict[str, Given]:
    """Return the options among an object's fields; the other fields are passed over.

    Raises:
        UsageError: naming the option that is of a wrong type, or out of range.
    """
    own = {name: OPTIONS[name].read(value) for name, value in fields.items() if name in OPTIONS}
    if own.get("choice") == ():  # which elsewhere means that there is no constraint
        raise UsageError(option="choice", expected="at least one text", found="an empty list")
    return {name: Given(value) for name, value in own.items()}


def look_up_texts(settings: Settings, tokenizer: Tokenizer, shape: ModelShape) -> None:
    """Look up the options' texts, so that a bad one is an error before any prompt is there.

    Raises:
        UsageError, PackageError: as `prepare`.
    """
    asked = make_request(settings, "", seed=0)
    # No prompt is known yet, so none is too long.
    fitting = replace(asked, generation=replace(asked.generation, overflow=Overflow.STOP))
    prepare(fitting, tokenizer, shape, prompt_ids=[0])
