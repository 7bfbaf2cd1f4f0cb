"""`gpt2 config`: the user's own defaults in a file, and where each value comes from."""

import json as json_format
from typing import Annotated, Any, Final

import typer

from gpt2cli.commands.completion import complete_kept_setting, complete_setting, complete_value
from gpt2cli.commands.help_page import Command
from gpt2cli.commands.option_kinds import option
from gpt2cli.commands.option_values import DeclaredOption
from gpt2cli.commands.options.panels import REPORT, Quiet
from gpt2cli.commands.user_defaults import UserDefault

_ANY_VALUE: Final = {"ignore_unknown_options": True}  # -1, or a key with its dashes

config = typer.Typer(
    no_args_is_help=True,
    help="Keep defaults of your own for the options that you always give.\n\n"
    "Every option under Sampling, Limits, Reporting and Model can be kept, except those that "
    "name a file: by its long name with underscores in the config file, or in capitals after "
    "GPT2_ in the environment. An option on the command line comes first, then the environment, "
    "then the file, then the model's own generation_config.json, then what is built in.",
)


@config.command(cls=Command)
def path() -> None:
    """Print where the config file is, or would be.

    For example:

    gpt2 config path

    cat "$(gpt2 config path)"
    """
    from gpt2cli.user_settings import config_file

    _write(f"{config_file()}\n")


@config.command(cls=Command)
def show(
    *,
    json: Annotated[
        bool, option(REPORT, "--json", help="Print a JSON record per setting.")
    ] = False,
) -> None:
    """Print each setting, its value, and where the value comes from.

    A model's own generation_config.json may have a say in what is built in here: --stats tells.

    For example:

    gpt2 config show

    GPT2_TOP_K=5 gpt2 config show --json | jq 'select(.from != "built in")'
    """
    from gpt2cli.commands.user_defaults import find_defaults, settable_options
    from gpt2cli.terminal.tables import format_table

    options = settable_options()
    defaults = find_defaults(options, {})
    records = [_describe(option, defaults.get(option.field)) for option in options]
    if json:
        _write("".join(f"{json_format.dumps(record)}\n" for record in records))
        return
    rows = [
        (record["setting"], record["default"] if value is None else _show(value), record["from"])
        for record in records
        for value in [record["value"]]
    ]
    _write(format_table(("SETTING", "VALUE", "FROM"), rows))


# Not flattened: these two mend a file that other commands cannot read.
@config.command(cls=Command, name="set", context_settings=_ANY_VALUE)
def set_(
    *,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            autocompletion=complete_setting,
            help="An option's long name, as temperature or max_new_tokens.",
        ),
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            autocompletion=complete_value,
            help="As on the command line; on or off for a switch; for a repeatable option one "
            "value or a JSON array.",
        ),
    ],
    quiet: Quiet = False,
) -> None:
    r"""Keep a value in the config file; everything else in it stays.

    For example:

    gpt2 config set model gpt2-medium

    gpt2 config set stop '["\n", "User:"]'
    """
    from gpt2cli.commands.start_config import check_setting  # heavy: not for --help
    from gpt2cli.commands.user_defaults import find_option
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.user_settings import config_file, read_variable, variable_of, write_setting

    option = find_option(key)
    kept = check_setting(option, value)
    write_setting(option.field, kept)
    with Notes(quiet=quiet) as notes:
        notes.note(f"{option.field} is {_show(kept)} in {config_file()}")
        if read_variable(option.field):
            notes.note(f"{variable_of(option.field)} is set, and comes first")


@config.command(cls=Command, context_settings=_ANY_VALUE)
def unset(
    *,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", autocompletion=complete_kept_setting, help="Setting to remove."
        ),
    ],
    quiet: Quiet = False,
) -> None:
    """Remove a value from the config file.

    For example:

    gpt2 config unset temperature

    gpt2 config unset max-new-tokens
    """
    from gpt2cli.commands.user_defaults import find_option
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.user_settings import config_file, remove_setting

    field = key.lstrip("-").replace("-", "_")
    removed = remove_setting(field)  # also what is no option: that is how a file is mended
    if not removed:
        find_option(key)
    with Notes(quiet=quiet) as notes:
        notes.note(f"{field} is {'no longer' if removed else 'not'} in {config_file()}")


def _describe(option: DeclaredOption, default: UserDefault | None) -> dict[str, Any]:
    """Return a setting's record; the value is null where nobody said anything."""
    return {
        "setting": option.field,
        "value": None if default is None else default.value,
        "from": "built in" if default is None else default.origin,
        "default": option.usual,
    }


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) or value == "":  # what would not be seen stands in quotes
        return json_format.dumps(value, ensure_ascii=False)
    return str(value)


def _write(text: str) -> None:
    from gpt2cli.terminal.result import open_result

    with open_result(None) as writer:
        writer.write(text)
