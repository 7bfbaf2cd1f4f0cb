"""What `/set` changes: every sampling and limit option."""

from collections.abc import Sequence
from typing import Any, Final

from gpt2cli.chat import ChatSettings
from gpt2cli.config import GenerationConfig, SamplingConfig, SeedConfig
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH, Option, options_of
from gpt2cli.settings import Given, Settings, find_settings

_GROUPS: Final = (SamplingConfig, SeedConfig, GenerationConfig)
_DEFAULT: Final = "default"
_ALIKE: Final = frozenset({"temperature", "greedy"})  # greedy is a temperature


def make_chat_settings(settings: Settings) -> ChatSettings:
    """Return what replies are made by.

    Raises:
        UsageError: naming options that do not go together.
    """
    return ChatSettings(
        sampling=settings.make(SamplingConfig),
        generation=settings.make(GenerationConfig),
        seed=settings.make(SeedConfig).seed,
    )


def change(settings: Settings, option: Option, text: str) -> Settings:
    """Return the settings with one value changed.

    `default` takes back what was given: then the environment, the config file or the model say what
    holds.

    Raises:
        UsageError: if the value is none, or does not go with the others.
    """
    if text == _DEFAULT:
        fields = _ALIKE if option.field in _ALIKE else {option.field}
        behind = find_settings((settings.options[field] for field in fields), {})
        return settings.without(fields).over(behind.given).check()
    return settings.over({option.field: Given(option.parse(_unquote(text)))}).check()


def describe(settings: Settings) -> dict[str, str]:
    """Return each option's value in force, by its name."""
    return {o.name: _show(o, settings.values[o.field]) for o in all_options()}


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


def _unquote(text: str) -> str:
    """Return what stands within double quotes; the text itself if it does not."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1] if quoted else text


def _show(option: Option, value: Any) -> str:
    if option.kind is SWITCH:
        return "on" if value else "off"
    if option.field == "seed" and value is None:
        return "random"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(_show_part(part) for part in value) or "none"
    return str(value)


def _show_part(part: Any) -> str:
    """Return a text in quotes, or one with its bias."""
    return repr(part) if isinstance(part, str) else f"{part[0]!r}={part[1]:g}"
