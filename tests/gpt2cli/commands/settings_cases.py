"""Every option that can be kept, with values of its own, and commands that tell what they took."""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import typer
from typer.testing import CliRunner

from gpt2cli.config import SETTABLE
from gpt2cli.option_kinds import NUMBER, SWITCH, WHOLE, Option
from gpt2cli.options import takes
from gpt2cli.settings import Settings, settable_options

OPTIONS: Final = settable_options()
CHOSEN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("cpu", "cuda", "cuda:1", "cuda:2"),
    "logit-bias": ("1=1", "2=2", "3=3", "4=4"),
}


def values_of(option: Option) -> tuple[str, ...]:
    """Return four values, none the default and all different where the kind has so many."""
    if option.name in CHOSEN:
        return CHOSEN[option.name]
    if option.kind is SWITCH:
        return ("on", "off", "on", "off")
    if option.kind.choices:
        other = [choice for choice in option.kind.choices if choice != option.default]
        return (other[0], other[1], other[0], other[1])
    if option.kind in (WHOLE, NUMBER):
        return ("5", "4", "3", "2") if option.kind is WHOLE else ("0.5", "0.4", "0.3", "0.2")
    return ("a", "b", "c", "d")


def as_flag(option: Option, value: str) -> str:
    """Return a value as an argument of the command line."""
    if option.kind is SWITCH:
        return f"--{option.name}" if value == "on" else f"--no-{option.name}"
    return f"--{option.name}={value}"


def as_toml(option: Option, value: str) -> str:
    """Return a value as a line of the config file."""
    typed = [value] if option.repeatable else option.parse(value)
    return f"{option.field} = {json.dumps(typed)}\n"


Keep = Callable[[str], pathlib.Path]  # gives the config file a text; returns its path


def open_settings(*arguments: str) -> Settings:
    """Return the settings of a command that is run with these arguments."""
    taken: list[Settings] = []

    def command(*, settings: Settings) -> None:
        taken.append(settings)

    application = typer.Typer()
    application.command()(takes(*SETTABLE)(command))
    result = CliRunner().invoke(application, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken[0]


def take(*arguments: str) -> Mapping[str, Any]:
    """Return the values of a command's options, by field."""
    return open_settings(*arguments).values
