"""Every option that can be kept, with values of its own, and commands that tell what they took."""

import json
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import typer
from typer.testing import CliRunner

from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.option_values import DeclaredOption
from gpt2cli.commands.options import (
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    ReportOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.commands.user_defaults import settable_options

OPTIONS: Final = settable_options()
CHOSEN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("cpu", "cuda", "cuda:1", "cuda:2"),
    "logit-bias": ("1=1", "2=2", "3=3", "4=4"),
}


def values_of(option: DeclaredOption) -> tuple[str, ...]:
    """Return four values, none the default and all different where the kind has so many."""
    if option.name in CHOSEN:
        return CHOSEN[option.name]
    if option.kind is bool:
        return ("on", "off", "on", "off")
    if option.choices:
        other = [choice for choice in option.choices if choice != option.default]
        return (other[0], other[1], other[0], other[1])
    if option.kind in (int, float):
        return ("5", "4", "3", "2") if option.kind is int else ("0.5", "0.4", "0.3", "0.2")
    return ("a", "b", "c", "d")


def as_flag(option: DeclaredOption, value: str) -> str:
    """Return a value as an argument of the command line."""
    if option.kind is bool:
        return f"--{option.name}" if value == "on" else f"--no-{option.name}"
    return f"--{option.name}={value}"


def as_toml(option: DeclaredOption, value: str) -> str:
    """Return a value as a line of the config file."""
    typed = option.parse_plain(value)
    return f"{option.field} = {json.dumps(typed)}\n"


Keep = Callable[[str], pathlib.Path]  # gives the config file a text; returns its path


@dataclass(frozen=True)
class Taken:
    """The groups that a command took."""

    model: ModelOptions
    sampling: SamplingOptions
    search: SearchOptions
    limits: LimitOptions
    constraint: ConstraintOptions
    report: ReportOptions

    def __getitem__(self, field: str) -> Any:
        """Return the value of an option's field."""
        groups = [getattr(self, own.name) for own in fields(self)]
        return next(getattr(group, field) for group in groups if hasattr(group, field))


def take(*arguments: str) -> Taken:
    """Return what a command takes that is run with these arguments."""
    taken: list[Taken] = []

    def command(
        *,
        model: ModelOptions,
        sampling: SamplingOptions,
        search: SearchOptions,
        limits: LimitOptions,
        constraint: ConstraintOptions,
        report: ReportOptions,
    ) -> None:
        taken.append(Taken(model, sampling, search, limits, constraint, report))

    application = typer.Typer()
    application.command()(flatten(command))
    result = CliRunner().invoke(application, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken[0]
