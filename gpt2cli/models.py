"""`gpt2 models`: what is in the cache, pulling into it and removing from it."""

import json as json_format
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpt2cli.config import (
    AUTO,
    PRECISIONS,
    REPORT,
    ReportConfig,
    adapter_option,
    json_option,
    values_of,
)
from gpt2cli.declarations import option, setting
from gpt2cli.option_kinds import NAME, Range, one_of
from gpt2cli.options import Command, complete_cached, complete_model, takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes, confirm
from gpt2cli.terminal.result import open_result
from gpt2cli.terminal.tables import format_size, format_table

if TYPE_CHECKING:
    from gpt2cli.store.catalogue import CachedModel

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
_EXPORT: Final = "Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig:
    """What is pulled."""

    revision: str | None = option(
        None, "Branch, tag or commit to pull.", _EXPORT, kind=NAME, metavar="REV", usual="main"
    )
    step: int | None = option(
        None, "Step of a folder with several TensorFlow checkpoints.", _EXPORT,
        within=Range(0), usual="the newest",
    )  # fmt: skip
    adapter: tuple[str, ...] = adapter_option(_EXPORT)
    precision: str = setting(
        AUTO, "Precision of the weights.", _EXPORT,
        kind=one_of((AUTO, *PRECISIONS)), usual="auto: what generate uses here",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which exports of a model are meant."""

    revision: str | None = option(
        None, "Only exports of this commit.", _EXPORT, kind=NAME, metavar="COMMIT", usual="any"
    )
    step: int | None = option(
        None, "Only exports of this step of a TensorFlow checkpoint.", _EXPORT,
        within=Range(0), usual="any",
    )  # fmt: skip
    precision: str | None = option(
        None, "Only exports in this precision.", _EXPORT, kind=one_of(PRECISIONS), usual="any"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How the result is written."""

    json: bool = json_option("Print JSON instead of text.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Whether the user is asked."""

    yes: bool = option(False, "Do not ask for confirmation.", REPORT, short="-y")


models = typer.Typer(
    no_args_is_help=True, help="List, pull, show and remove the models in the cache."
)


@models.command("list", cls=Command)
@takes(Output)
def list_models(*, settings: Settings) -> None:
    """List the exported models in the cache, with their sizes on disk.

    For example:

    gpt2 models list

    gpt2 models list --json | jq -r .path
    """
    from gpt2cli.store.catalogue import list_cached

    cached = list_cached()
    if settings.make(Output).json:
        text = "".join(f"{json_format.dumps(_as_record(model))}\n" for model in cached)
    else:
        rows = [
            (
                " + ".join([model.name, *(adapter.title for adapter in model.adapters)]),
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
@takes(PullConfig, ReportConfig, without={"stats"})
def pull(
    *,
    name: Name,
    settings: Settings,
) -> None:
    """Download and export a model, or bring it up to date.

    For example:

    gpt2 models pull gpt2-medium

    gpt2 models pull distilgpt2 --precision int8
    """
    from gpt2cli.loading import find_usual_precision
    from gpt2cli.store.store import Store

    wanted = settings.make(PullConfig)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        model = Store(
            revision=wanted.revision,
            step=wanted.step,
            adapters=wanted.adapter,
            precision=wanted.precision,
            auto_precision=find_usual_precision(),
            listener=notes,
        ).pull(name)
        commit = f" at {model.revision}" if model.revision else ""
        merged = "".join(f" + {adapter.title}" for adapter in model.folder.adapters)
        notes.note(f"{model.name}{commit}{merged}, {model.folder.precision}, is ready")


@models.command(cls=Command)
@takes(Filter, Output)
def show(*, name: CachedName, settings: Settings) -> None:
    """Print a model's configuration, special tokens, parameters, and the graph's table.

    NAME may be a model folder of your own. All of it is read, to find damage. Each
    special token is shown with what it does and the checkpoint's file that says so.

    For example:

    gpt2 models show gpt2

    gpt2 models show ./my-model

    gpt2 models show gpt2 --json | jq .config
    """
    from gpt2cli.store.catalogue import describe_model, find_cached

    which, json = settings.make(Filter), settings.make(Output).json
    with open_result(None) as writer:
        found = find_cached(name, **values_of(which), folders=True)
        for model in found:
            described = _as_record(model) | describe_model(model)
            writer.write(
                f"{json_format.dumps(described)}\n" if json else _format_described(described)
            )


@models.command(cls=Command)
@takes(Filter, Confirmation, ReportConfig, without={"stats"})
def rm(*, name: CachedName, settings: Settings) -> None:
    """Remove a model's exports from the cache, after asking.

    What huggingface_hub downloaded stays in its own cache, which other tools share.

    For example:

    gpt2 models rm gpt2-xl

    gpt2 models rm gpt2 --precision int8 --yes
    """
    from gpt2cli.store.catalogue import find_cached, remove_cached

    which = settings.make(Filter)
    found = find_cached(name, **values_of(which))
    size = format_size(sum(model.size for model in found))
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        for model in found:
            notes.note(f"{model.name} {model.precision}: {model.path}")
        if not settings.make(Confirmation).yes and not confirm(f"Remove {size}?"):
            notes.note("nothing was removed")
            raise typer.Exit(1)
        remove_cached(found)
        notes.note(f"removed {size}")


def _as_record(model: "CachedModel") -> dict[str, object]:
    return {
        "name": model.name,
        "revision": model.revision,
        "adapters": [asdict(adapter) for adapter in model.adapters],
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
        elif name == "adapters" and isinstance(value, list):
            lines += [f"adapter  {one['name']} {one['revision'] or ''}".rstrip() for one in value]
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
