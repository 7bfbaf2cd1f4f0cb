"""The options of the table as Typer's parameters: how a command takes them, and shows them."""

import copy
import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from export.small_files import ReadError, parse_json, read_text
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError, shorten
from gpt2cli.option_kinds import FILE, SCHEMA, SWITCH, from_bytes
from gpt2cli.setting_sources import find_settings, naming_origin
from gpt2cli.settings import Given, Settings
from gpt2cli.user_settings import PRESETS, read_presets

Function = Callable[..., None]
# What the shell offers: a value, or a value with a remark.
Offer = str | tuple[str, str]


class Command(TyperCommand):
    """A command whose help has no column for `--no-…`: a switch's sentence says it.

    Typer 0.28 would add that column to every panel with a switch, and leave too little room for the
    sentences on 80 columns.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; every error knows its command, which not all of Typer 0.28's do."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        shown = copy.copy(self)
        shown.params = [copy.copy(parameter) for parameter in self.params]
        for parameter in shown.params:
            parameter.secondary_opts = []
        super(Command, shown).format_help(ctx, formatter)


def takes(
    *groups: type[Any], without: Collection[str] = (), own: bool = True, **defaults: Any
) -> Callable[[Function], Function]:
    """Let a command take the options of groups, which it gets as `settings`.

    `own`: whether the user's environment and config file are read. `defaults`: by field, in
    place of the table's.
    """
    options = {
        option.field: dataclasses.replace(option, default=defaults[option.field], usual="")
        if option.field in defaults
        else option
        for group in groups
        for option in options_of(group)
        if option.field not in without
    }

    def decorate(command: Function) -> Function:
        others = [p for n, p in inspect.signature(command).parameters.items() if n != "settings"]
        parameters = [*others, *map(_as_parameter, options.values())]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            flags = {field: _gather(values.pop(field)) for field in options}
            settings = _read_schema(find_settings(options.values(), flags, own=own))
            with settings.naming_origins(), _logged(settings.check(), command.__name__):
                command(**values, settings=settings)

        # Typer looks at both.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _logged(settings: Settings, command: str) -> AbstractContextManager[None]:
    """Open the log of a command, if one is asked for."""
    if not (settings.values.get("verbose") or settings.values.get("log_file")):
        return nullcontext()
    from gpt2cli.terminal.logs import log_opened  # takes 15 ms

    return log_opened(settings, command.rstrip("_"))


def spell_flag(field: str) -> str:
    """Return how an option is written on the command line."""
    return "--" + field.replace("_", "-")


def _as_parameter(option: Option) -> inspect.Parameter:
    """Return an option as Typer's parameter, whose value is None if the option was not given."""
    first = spell_flag(option.field)
    told: dict[str, Any] = {"help": option.told, "show_default": False}
    told["rich_help_panel"] = option.panel
    if option.kind is SWITCH:
        kind: Any = bool
        first = f"{first}/--no-{option.name}" if option.negatable else first
    else:
        kind = list[str] if option.repeatable else str
        told["parser"] = lambda text: _parse(option, text)
        told["metavar"] = option.metavar or option.kind.metavar
        told["autocompletion"] = lambda incomplete: complete_option(option, incomplete)
    names = [first, *filter(None, [option.short])]
    annotation = Annotated[kind | None, typer.Option(*names, **told)]
    return inspect.Parameter(
        option.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _parse(option: Option, text: str) -> Any:
    named = option.kind in (FILE, SCHEMA)  # a file's name need not be UTF-8
    return option.parse_one(text if named else from_bytes(text, option.field))


def _gather(value: Any) -> Any:
    """Return an option's value from Typer; of a repeatable one a tuple; None if there is none."""
    return (tuple(value) or None) if isinstance(value, list) else value


def _read_schema(settings: Settings) -> Settings:
    """Replace the file of a schema by its text; errors still name the file."""
    given = settings.given.get("json_schema")
    if given is None:
        return settings
    origin = f"{spell_flag('json_schema')} {given.value}"
    with naming_origin("json_schema", origin):
        return settings.over({"json_schema": Given(read_schema(given.value), origin)})


def read_schema(path: Path) -> str:
    """Return the text of a JSON schema.

    Raises:
        UsageError: if the file cannot be read, or is not a JSON object.
    """
    try:
        text = read_text(path, pipes=True)
        schema = parse_json(text)
    except ReadError as error:
        raise UsageError(f"it {error}", option="json_schema") from error
    if not isinstance(schema, dict):
        found = shorten(json.dumps(schema))
        raise UsageError(option="json_schema", expected="a JSON schema, an object", found=found)
    return text


# Shell completion: it must answer within a key press, and offers nothing rather than fail.


def complete_option(option: Option, incomplete: str) -> list[Offer]:
    """Offer the values that an option can have, where there are few."""
    if option.field == "model":
        return complete_model(incomplete)
    if option.field == PRESETS:
        return complete_preset(incomplete)
    if option.field == "adapter":
        offers = _folders_with("adapter_config.json")
        return [(name, told) for name, told in offers.items() if name.startswith(incomplete)]
    return [choice for choice in option.kind.choices if choice.startswith(incomplete)]


def complete_model(incomplete: str) -> list[Offer]:
    """Offer what --model takes: aliases, what is in the cache, and folders of models here.

    It offers nothing for any other path, which the shell then completes as a file's.
    """
    from gpt2cli.store.names import HUB_ALIASES, STARTER

    offers = {STARTER: "bundled", **HUB_ALIASES, **_cached_names(), **_folders_with("config.json")}
    return [(name, told) for name, told in offers.items() if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[Offer]:
    """Offer the user's presets."""
    try:
        return [name for name in read_presets() if name.startswith(incomplete)]
    except UsageError:
        return []


def complete_cached(incomplete: str) -> list[Offer]:
    """Offer the models in the cache."""
    return [(name, told) for name, told in _cached_names().items() if name.startswith(incomplete)]


def _cached_names() -> dict[str, str]:
    from gpt2cli.store.catalogue import list_cached

    names: dict[str, list[str]] = {}
    for model in list_cached():
        names.setdefault(model.name, []).append(model.precision)
    return {name: f"cached: {', '.join(found)}" for name, found in names.items()}


def _folders_with(file: str) -> dict[str, str]:
    """Return the folders here that hold a file: a checkpoint, model folder or adapter does."""
    try:
        return {path.parent.name: "folder" for path in sorted(Path().glob(f"*/{file}"))}
    except OSError:
        return {}
