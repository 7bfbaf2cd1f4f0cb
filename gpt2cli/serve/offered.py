"""The options that a request may have, as the page at / shows them."""

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.declarations import Option
from gpt2cli.openai.asking import NAMES
from gpt2cli.option_kinds import NUMBER, SCHEMA, SWITCH, WHOLE
from gpt2cli.prompt_options import OPTIONS
from gpt2cli.serve.service import Service

_KINDS: Final = {NUMBER: "number", WHOLE: "whole", SWITCH: "switch", SCHEMA: "schema"}
# What the page asks for where nobody said anything: OpenAI's 16 tokens are few to read.
_STARTS: Final[Mapping[str, Any]] = {"max_new_tokens": 128, "logprobs": 5}


def describe_options(service: Service) -> list[dict[str, Any]]:
    """Return what the page needs for the control of each option."""
    return [_describe(option, service) for option in OPTIONS.values()]


def _describe(option: Option, service: Service) -> dict[str, Any]:
    low, high = _find_bounds(option, service)
    start = None if option.field in service.settings.given else _STARTS.get(option.field)
    return {
        "name": NAMES.get(option.field, option.field),
        "help": spell_help(option),
        "panel": option.panel,
        "common": bool(option.short) or option.field == "seed",  # what people change most
        "kind": _KINDS.get(option.kind, "text"),
        "many": option.repeatable,
        "choices": [] if option.kind is SWITCH else list(option.kind.choices),
        "escapes": option.kind.has_escapes,
        "low": low,
        "high": high,
        "usual": service.settings.values.get(option.field, option.default),
        "start": start if start is None or high is None else min(start, high),
    }


def _find_bounds(option: Option, service: Service) -> tuple[float | None, float | None]:
    """Return the least and the most. Where the least itself is left out, the server says so."""
    if option.field == "max_new_tokens":
        return 0, service.form.max_tokens_limit
    within = option.within
    return (None, None) if within is None else (within.low, within.high)


def spell_help(option: Option) -> str:
    """Return an option's help, in which others are called as in a request: no --flag, no file."""
    told = option.told_of_any
    if option.kind is SCHEMA:
        told = told.replace(f" in {option.metavar or option.kind.metavar}", "")
    names = _list_flags()
    return re.sub(r"(?<![\w-])--?[a-zA-Z][a-z-]*", lambda flag: names.get(flag[0], flag[0]), told)


@functools.cache
def _list_flags() -> Mapping[str, str]:
    names = {option: NAMES.get(option.field, option.field) for option in OPTIONS.values()}
    flags = {f"--{option.name}": name for option, name in names.items()}
    return flags | {option.short: name for option, name in names.items() if option.short}
