"""`gpt2 config preset`: options under a name, for --preset NAME to take."""

import json as json_format
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from gpt2cli.config import ReportConfig, json_option
from gpt2cli.errors import UsageError
from gpt2cli.kept import check_kept, show_kept
from gpt2cli.option_kinds import from_bytes
from gpt2cli.options import Command, Offer, complete_preset, takes
from gpt2cli.setting_sources import find_option, settable_options
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result
from gpt2cli.terminal.tables import format_table
from gpt2cli.user_settings import (
    config_file,
    read_preset,
    read_presets,
    remove_preset,
    write_preset,
)

_ANY_VALUE: Final = {"ignore_unknown_options": True}  # a value such as -1, or a key with its dashes
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")  # what TOML takes without quotes

preset = typer.Typer(
    no_args_is_help=True,
    help="Keep options under a name: --preset NAME of generate, chat, batch and serve, or "
    "GPT2_PRESET, takes them. They come right behind the options that stand beside their name.",
)
_Name = Annotated[
    str,
    typer.Argument(metavar="NAME", autocompletion=complete_preset, help="A preset's name."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How presets are shown."""

    json: bool = json_option("Print a JSON record per preset.")


def _complete_pair(incomplete: str) -> list[Offer]:
    options = settable_options()
    return [(f"{o.field}=", o.told) for o in options if o.field.startswith(incomplete)]


@preset.command(cls=Command, context_settings=_ANY_VALUE)
@takes(ReportConfig, without={"stats"}, own=False)
def save(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, - and _.")],
    options: Annotated[
        list[str],
        typer.Argument(
            metavar="OPTION=VALUE…",
            autocompletion=_complete_pair,
            help="An option's long name and its value, as for `gpt2 config set`.",
        ),
    ],
    settings: Settings,
) -> None:
    r"""Keep options under a name, in place of what it stood for before.

    For example:

    gpt2 config preset save wild temperature=1.4 top_k=0 min_p=0.05

    gpt2 generate --preset wild "Once upon"
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"expected a name of letters, digits, - and _, found {name!r}")
    values = check_kept(_read_pairs(options), beside={})
    replaced = write_preset(name, values)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        again = ", in place of the earlier one" if replaced else ""
        notes.note(f"preset {name} is {_describe(values)} in {config_file()}{again}")


@preset.command(cls=Command, name="list")
@takes(Output)
def list_(*, settings: Settings) -> None:
    """Print all presets.

    For example:

    gpt2 config preset list

    gpt2 config preset list --json | jq -r .preset
    """
    presets = read_presets()
    if settings.make(Output).json:
        _write("".join(_as_record(name, values) for name, values in presets.items()))
        return
    rows = [(name, _describe(values)) for name, values in presets.items()]
    _write(format_table(("PRESET", "OPTIONS"), rows))


@preset.command(cls=Command)
@takes(Output)
def show(*, name: _Name, settings: Settings) -> None:
    """Print the options of a preset.

    For example:

    gpt2 config preset show wild

    gpt2 config preset show wild --json | jq .options
    """
    values = _read(name)
    if settings.make(Output).json:
        _write(_as_record(name, values))
        return
    rows = [(field, show_kept(value)) for field, value in values.items()]
    _write(format_table(("SETTING", "VALUE"), rows))


@preset.command(cls=Command)
@takes(ReportConfig, without={"stats"}, own=False)
def rm(*, name: _Name, settings: Settings) -> None:
    """Remove a preset.

    For example:

    gpt2 config preset rm wild

    gpt2 config preset rm wild --quiet
    """
    _read(name)  # an unknown one is an error
    remove_preset(name)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        notes.note(f"preset {name} is no longer in {config_file()}")


def _read(name: str) -> Mapping[str, Any]:
    try:
        return read_preset(name)
    except UsageError as error:
        error.option = None  # it is an argument here
        raise


def _read_pairs(pairs: Sequence[str]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for field, value in map(_split, pairs):
        if field in values:
            raise UsageError(f"expected {field} once, with several values as a JSON array")
        values[field] = value
    return values


def _split(pair: str) -> tuple[str, str]:
    key, equals, value = from_bytes(pair).partition("=")
    if not equals:
        raise UsageError(f"expected OPTION=VALUE, such as top_k=40, found {pair!r}")
    return find_option(key).field, value


def _describe(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{field} {show_kept(value)}" for field, value in values.items())


def _as_record(name: str, values: Mapping[str, Any]) -> str:
    record = {"preset": name, "options": values}
    return json_format.dumps(record, ensure_ascii=False, default=str) + "\n"


def _write(text: str) -> None:
    with open_result(None) as writer:
        writer.write(text)
