"""`gpt2 config`: the user's own defaults in a file, and where each value comes from."""

import json as json_format
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from gpt2cli.config import ReportConfig, json_option
from gpt2cli.declarations import Option
from gpt2cli.errors import UsageError
from gpt2cli.kept import as_toml, check_kept, show_kept
from gpt2cli.options import Command, Offer, complete_option, takes
from gpt2cli.setting_sources import find_option, find_settings, read_file, settable_options
from gpt2cli.settings import Given, Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result
from gpt2cli.terminal.tables import format_table
from gpt2cli.user_settings import (
    PRESETS,
    config_file,
    read_config,
    read_presets,
    read_variable,
    remove_setting,
    variable_of,
    write_setting,
)

_ANY_VALUE: Final = {"ignore_unknown_options": True}  # a value such as -1, or a key with its dashes

config = typer.Typer(
    no_args_is_help=True,
    help="Keep defaults of your own for the options that you always give.\n\n"
    "Every option under Sampling, Limits, Reporting and Model can be kept, except those that "
    "name a file: by its long name with underscores in the config file, or in capitals after "
    "GPT2_ in the environment. An option on the command line comes first, then the environment, "
    "then the file, then the model's own generation_config.json, then the built-in default.",
)


def _complete_setting(incomplete: str) -> list[Offer]:
    options = settable_options()
    return [(o.field, o.told) for o in options if o.field.startswith(incomplete)]


def _complete_kept_setting(incomplete: str) -> list[Offer]:
    try:
        return [key for key in read_config() if key.startswith(incomplete)]
    except UsageError:
        return []


def _complete_value(ctx: typer.Context, incomplete: str) -> list[Offer]:
    try:
        return complete_option(find_option(str(ctx.params.get("key"))), incomplete)
    except UsageError:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How the settings are shown."""

    json: bool = json_option("Print a JSON record per setting.")


@config.command(cls=Command)
def path() -> None:
    """Print where the config file is, or would be.

    For example:

    gpt2 config path

    cat "$(gpt2 config path)"
    """
    _write(f"{config_file()}\n")


@config.command(cls=Command)
@takes(Output)
def show(*, settings: Settings) -> None:
    """Print each setting, its value, and where the value comes from.

    A model's own generation_config.json may replace built-in defaults: --stats shows it.

    For example:

    gpt2 config show

    GPT2_TOP_K=5 gpt2 config show --json | jq 'select(.from != "built in")'
    """
    options = settable_options()
    kept = find_settings(options, {}).given
    records = [_describe(option, kept.get(option.field)) for option in options]
    if settings.make(Output).json:
        _write("".join(f"{json_format.dumps(record)}\n" for record in records))
        return
    rows = [
        (
            record["setting"],
            record["default"] if value is None else show_kept(value),
            record["from"],
        )
        for record in records
        for value in [record["value"]]
    ]
    _write(format_table(("SETTING", "VALUE", "FROM"), rows))


# The user's own settings are not read here: these two commands repair a file that others cannot
# read.
@config.command(cls=Command, name="set", context_settings=_ANY_VALUE)
@takes(ReportConfig, without={"stats"}, own=False)
def set_(
    *,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            autocompletion=_complete_setting,
            help="An option's long name, such as temperature or max_new_tokens.",
        ),
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            autocompletion=_complete_value,
            help="As on the command line; on or off for a switch; for a repeatable option one "
            "value or a JSON array.",
        ),
    ],
    settings: Settings,
) -> None:
    r"""Keep a value in the config file; everything else in it stays.

    For example:

    gpt2 config set model gpt2-medium

    gpt2 config set stop '["\n", "User:"]'
    """
    option = find_option(key)
    others = (other for other in settable_options() if other.field != option.field)
    kept = check_kept({option.field: value}, beside=read_file(others))[option.field]
    write_setting(option.field, kept)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        notes.note(f"{option.field} is {show_kept(kept)} in {config_file()}")
        if read_variable(option.field):
            notes.note(f"{variable_of(option.field)} is set, and takes precedence")


@config.command(cls=Command, context_settings=_ANY_VALUE)
@takes(ReportConfig, without={"stats"}, own=False)
def unset(
    *,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", autocompletion=_complete_kept_setting, help="Setting to remove."
        ),
    ],
    settings: Settings,
) -> None:
    """Remove a value from the config file.

    For example:

    gpt2 config unset temperature

    gpt2 config unset max-new-tokens
    """
    field = key.lstrip("-").replace("-", "_")
    if field == PRESETS and read_presets():
        raise UsageError("there is no setting preset", "`gpt2 config preset rm NAME` removes one")
    removed = remove_setting(field)  # unknown keys too: this is how a file with one is repaired
    if not removed:
        find_option(key)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        notes.note(f"{field} is {'no longer' if removed else 'not'} in {config_file()}")


def _describe(option: Option, given: Given | None) -> dict[str, Any]:
    """Return a setting's record; the value is null where none is set."""
    return {
        "setting": option.field,
        "value": None if given is None else as_toml(option, given.value),
        "from": "built in" if given is None else given.origin,
        "default": option.usual_words,
    }


def _write(text: str) -> None:
    with open_result(None) as writer:
        writer.write(text)
