"""Values that the config file keeps, by themselves or in presets: checked before, and shown."""

import json
from collections.abc import Mapping
from typing import Any

from gpt2cli.config import ConstraintConfig
from gpt2cli.declarations import Option
from gpt2cli.option_kinds import BIAS, from_bytes
from gpt2cli.setting_sources import naming_origin, settable_options
from gpt2cli.settings import Given, Layer, Settings


def check_kept(texts: Mapping[str, str], *, beside: Layer) -> dict[str, Any]:
    """Return the values to keep by their fields, as TOML has them, given their texts.

    A model's folder becomes an absolute path, which is valid everywhere. `beside`: what the file
    says already.

    Raises:
        UsageError: naming the setting, if a value is invalid, or does not go together with another.
        ModelError: if it is the model's name, and no such model is known.
        PackageError: if it is a pattern, and llguidance, which compiles it, is not installed.
    """
    options = {option.field: option for option in settable_options()}
    values = {}
    for field, text in texts.items():
        with naming_origin(field, field):
            values[field] = options[field].parse(from_bytes(text, field))
    given = {field: Given(value, field) for field, value in values.items()}
    settings = Settings(options, ({**beside, **given},)).check()
    with settings.naming_origins():
        if "regex" in values:
            _check_regex(values["regex"])
        if "model" in values:
            values["model"] = _find_model(values["model"])
    return {field: as_toml(options[field], value) for field, value in values.items()}


def _check_regex(pattern: str) -> None:
    """Compile a pattern, which needs no model: here a token is a byte."""
    from gpt2cli.sampling.constraints import ConstraintCompiler  # heavy: not for --help

    compiler = ConstraintCompiler([bytes([i]) for i in range(256)], lambda text: text.encode())
    compiler.compile(ConstraintConfig(regex=pattern))


def _find_model(name: str) -> str:
    from gpt2cli.store.names import STARTER, parse_name

    meaning = parse_name(name)
    return name if name == STARTER or isinstance(meaning, str) else str(meaning.resolve())


def as_toml(option: Option, value: Any) -> Any:
    """Return a value as the file keeps it."""
    if option.kind is BIAS:
        return [f"{token}={bias!r}" for token, bias in value]
    if option.repeatable:
        return list(value)
    return str(value) if isinstance(value, str) else value  # a member of an enumeration


def show_kept(value: Any) -> str:
    """Return such a value in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    # A value that would be invisible is put in quotes.
    if isinstance(value, list | dict) or value == "":
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
