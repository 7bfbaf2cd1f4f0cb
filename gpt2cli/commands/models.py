"""`gpt2 models`: what is in the cache, pulling into it and removing from it."""

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from gpt2cli.commands.completion import complete_cached, complete_model
from gpt2cli.commands.help_page import Command
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.option_kinds import option
from gpt2cli.commands.options import ExportPrecision, PrecisionChoice
from gpt2cli.commands.options.panels import EXPORT, MODEL, REPORT, Quiet

if TYPE_CHECKING:
    from gpt2cli.store import CachedModel

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=complete_model, help="Model, as --model takes it."
    ),
]
CachedName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=complete_cached, help="Model, as the list names it."
    ),
]
Revision = Annotated[
    str | None,
    option(
        EXPORT, "--revision", metavar="REV", help="Branch, tag or commit to pull. Default main."
    ),
]
Commit = Annotated[
    str | None,
    option(EXPORT, "--revision", metavar="COMMIT", help="Only of this commit. Default: of any."),
]
Precision = Annotated[
    ExportPrecision | None,
    option(EXPORT, "--precision", help="Only of this precision. Default: of any."),
]
Json = Annotated[bool, option(REPORT, "--json", help="Print JSON instead of text.")]

models = typer.Typer(
    no_args_is_help=True, help="List, pull, show and remove the models in the cache."
)


@models.command("list", cls=Command)
def list_models(*, json: Json = False) -> None:
    """List the exported models in the cache, with their sizes on disk.

    For example:

    gpt2 models list

    gpt2 models list --json | jq -r .path
    """
    from gpt2cli.store import list_cached
    from gpt2cli.terminal.result import open_result
    from gpt2cli.terminal.tables import format_size, format_table

    cached = list_cached()
    if json:
        text = "".join(f"{json_format.dumps(_as_record(model))}\n" for model in cached)
    else:
        rows = [
            (
                model.name,
                (model.revision or "-")[:12],
                model.precision,
                format_size(model.size),
                "damaged" if model.fault else "ok",
            )
            for model in cached
        ]
        text = format_table(("NAME", "REVISION", "PRECISION", "SIZE", "STATE"), rows)
    with open_result(None) as writer:
        writer.write(text)


@models.command(cls=Command)
@flatten
def pull(
    *,
    name: Name,
    revision: Revision = None,
    precision: Annotated[
        PrecisionChoice,
        option(
            MODEL,
            "--precision",
            help="Precision of the weights. Default auto: what generate takes here.",
        ),
    ] = PrecisionChoice.AUTO,
    quiet: Quiet = False,
) -> None:
    """Download and export a model, or bring it up to date.

    For example:

    gpt2 models pull gpt2-medium

    gpt2 models pull distilgpt2 --precision int8
    """
    from gpt2cli.loading import find_usual_precision
    from gpt2cli.store import pull_model
    from gpt2cli.terminal.notes import Notes

    with Notes(quiet=quiet) as notes:
        model = pull_model(
            name,
            revision=revision,
            precision=precision.value,
            auto_precision=find_usual_precision(),
            listener=notes,
        )
        commit = f" at {model.revision}" if model.revision else ""
        notes.note(f"{model.name}{commit}, {model.folder.precision}, is ready")


@models.command(cls=Command)
def show(
    *, name: CachedName, revision: Commit = None, precision: Precision = None, json: Json = False
) -> None:
    """Print a model's configuration, special tokens, parameters, and the graph's table.

    NAME may be a model folder of your own. All of it is read, to find damage. A
    special token is told with what it does, and the checkpoint's file that says so.

    For example:

    gpt2 models show gpt2

    gpt2 models show ./my-model

    gpt2 models show gpt2 --json | jq .config
    """
    from gpt2cli.store import describe_model, find_described
    from gpt2cli.terminal.result import open_result

    with open_result(None) as writer:
        for model in find_described(name, revision=revision, precision=precision):
            described = _as_record(model) | describe_model(model)
            writer.write(
                f"{json_format.dumps(described)}\n" if json else _format_described(described)
            )


@models.command(cls=Command)
@flatten
def rm(
    *,
    name: CachedName,
    revision: Commit = None,
    precision: Precision = None,
    yes: Annotated[bool, option(REPORT, "--yes", "-y", help="Do not ask.")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove a model's exports from the cache, after asking.

    What huggingface_hub downloaded stays in its own cache, which other tools share.

    For example:

    gpt2 models rm gpt2-xl

    gpt2 models rm gpt2 --precision int8 --yes
    """
    from gpt2cli.store import find_cached, remove_cached
    from gpt2cli.terminal.notes import Notes, confirm
    from gpt2cli.terminal.tables import format_size

    found = find_cached(name, revision=revision, precision=precision)
    size = format_size(sum(model.size for model in found))
    with Notes(quiet=quiet) as notes:
        for model in found:
            notes.note(f"{model.name} {model.precision}: {model.path}")
        if not yes and not confirm(f"Remove {size}?"):
            notes.note("nothing was removed")
            raise typer.Exit(1)
        remove_cached(found)
        notes.note(f"removed {size}")


def _as_record(model: "CachedModel") -> dict[str, object]:
    return {
        "name": model.name,
        "revision": model.revision,
        "precision": model.precision,
        "size": model.size,
        "path": str(model.path),
        "fault": model.fault,
    }


def _format_described(described: dict[str, object]) -> str:
    """Return one line per fact; the parts of what has parts are indented below its name."""
    lines = []
    for name, value in described.items():
        if name == "config" and isinstance(value, dict):
            lines += ["config", *(f"  {key}  {json_format.dumps(v)}" for key, v in value.items())]
        elif name == "special_tokens" and isinstance(value, list):
            lines += ["special tokens", *map(_format_token, value)]
        elif name in ("inputs", "outputs") and isinstance(value, list):
            lines += [name, *(f"  {n}  {dtype}  {axes}" for n, dtype, axes in value)]
        elif value is not None:
            lines.append(f"{name}  {value}")
    return "".join(f"{line}\n" for line in lines)


def _format_token(token: dict[str, object]) -> str:
    told = {"begins": "begins a text", "ends": "ends a text", "silent": "never printed"}
    roles = (f"{said} ({token[role]})" for role, said in told.items() if token[role])
    return f"  {token['id']}  {json_format.dumps(token['text'])}  {', '.join(roles)}"
