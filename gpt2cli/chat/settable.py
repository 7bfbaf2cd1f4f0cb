"""The settings that /set shows and changes: all that say how a reply is drawn and when it ends."""

from collections.abc import Sequence
from typing import Any, Final

from gpt2cli.config import GenerationConfig, SamplingConfig, SeedConfig
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH
from gpt2cli.setting_sources import find_settings
from gpt2cli.settings import Given, Settings
from gpt2cli.user_settings import PRESETS

_GROUPS: Final = (SamplingConfig, SeedConfig, GenerationConfig)
_ALIKE: Final = frozenset({"temperature", "greedy"})  # greedy is a temperature


def change_setting(settings: Settings, option: Option, text: str) -> Settings:
    """Return the settings with one value changed.

    The value `default` takes back a change: the environment, the config file or the model then
    decide.

    Raises:
        UsageError: if the value is invalid, or does not go together with others.
    """
    if text == "default":  # the environment, the config file or the model say what holds
        fields = _ALIKE if option.field in _ALIKE else {option.field}
        named = [option for option in settings.options.values() if option.field == PRESETS]
        taken = [*named, *(settings.options[field] for field in fields)]
        behind = find_settings(taken, {PRESETS: settings.values.get(PRESETS)})
        return settings.without(fields).over(behind.given).check()
    return settings.over({option.field: Given(option.parse(unquote(text)))}).check()


def describe_settings(settings: Settings) -> dict[str, str]:
    """Return each option's value in force, by its name."""
    return {o.name: _show_value(o, settings.values[o.field]) for o in all_options()}


def all_options() -> list[Option]:
    """Return every option that can be set."""
    return [option for group in _GROUPS for option in options_of(group)]


def find_option(name: str) -> Option:
    """Return the option of a name, with or without its dashes, `_` for `-`.

    Raises:
        UsageError: if there is none.
    """
    wanted = name.lstrip("-").replace("_", "-")
    options = {option.name: option for option in all_options()}
    if wanted not in options:
        raise UsageError(f"/set: there is no option {name}; known are {', '.join(options)}")
    return options[wanted]


def unquote(text: str) -> str:
    """Return what stands within double quotes; the text itself if it does not."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1] if quoted else text


def _show_value(option: Option, value: Any) -> str:
    if option.kind is SWITCH:
        return "on" if value else "off"
    if option.field == "seed" and value is None:
        return "random"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(_show_part(part) for part in value) or "none"
    return str(value)


def _show_part(part: Any) -> str:
    """Return a text in quotes, one with its bias, or an id."""
    return f"{part[0]!r}={part[1]:g}" if isinstance(part, tuple) else repr(part)
