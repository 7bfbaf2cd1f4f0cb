"""Options as a Python program gives them."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpt2cli.config import (
    OF_A_PROMPT,
    DraftConfig,
    ModelConfig,
    ScoringConfig,
    TextConfig,
    batch_size_option,
)
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError, shorten
from gpt2cli.settings import Given, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """How much of a model's work is done side by side."""

    batch_size: int | None = batch_size_option("How many completions run at once.")


def _table(*groups: type[Any], without: Collection[str] = ()) -> Mapping[str, Option]:
    found = (declared for group in groups for declared in options_of(group))
    return {declared.field: declared for declared in found if declared.field not in without}


OF_LOADING: Final = _table(LoadConfig, ModelConfig, DraftConfig)
# Several completions have several prompts: each call has one result for each.
OF_GENERATING: Final = _table(*OF_A_PROMPT, without=["samples"])
OF_SCORING: Final = _table(ScoringConfig, TextConfig)


def read_options(given: Mapping[str, Any], table: Mapping[str, Option]) -> Settings:
    """Return settings of values as JSON has them; None is as if nothing was said.

    Raises:
        UsageError: naming the option that is unknown, of a wrong type, or out of range.
    """
    layer = {}
    for name, value in given.items():
        if name not in table:
            raise _refuse_unknown(name, table)
        if value is not None:
            plain = list(value) if isinstance(value, tuple | set | frozenset) else value
            layer[name] = Given(table[name].read(plain))
    return Settings(table, (layer,)).check()


def _refuse_unknown(name: str, table: Mapping[str, Option]) -> UsageError:
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(table))}"
    return UsageError("there is no such option", hint, option=shorten(name))
