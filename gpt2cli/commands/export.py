"""`gpt2 export`: a checkpoint to a model folder of the user's own."""

from pathlib import Path
from typing import Annotated

import typer

from gpt2cli.commands.completion import complete_model
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.option_kinds import option
from gpt2cli.commands.options import ExportPrecision
from gpt2cli.commands.options.panels import EXPORT, Offline, Quiet


@flatten
def export(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            autocompletion=complete_model,
            help="Checkpoint folder, or a model's name or hub id as --model takes it.",
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Model folder to write; --model takes it.")
    ],
    precision: Annotated[
        ExportPrecision,
        option(
            EXPORT,
            "--precision",
            help="Precision of the weights; fp16 is for CUDA. Default fp32.",
        ),
    ] = ExportPrecision.FP32,
    revision: Annotated[
        str | None,
        option(
            EXPORT,
            "--revision",
            metavar="REV",
            help="Branch, tag or commit of a hub model. Default main.",
        ),
    ] = None,
    check: Annotated[
        bool,
        option(EXPORT, "--check", help="Check the graph at all positions, not only at a few."),
    ] = False,
    force: Annotated[
        bool, option(EXPORT, "--force", help="Replace an existing model folder.")
    ] = False,
    quiet: Quiet = False,
    offline: Offline = False,
) -> None:
    """Convert a checkpoint to an ONNX model folder.

    The folder appears whole and checked, or not at all.

    For example:

    gpt2 export ./my-checkpoint ./my-model --check

    gpt2 generate "Once upon" --model ./my-model
    """
    from gpt2cli.store import export_to, find_checkpoint
    from gpt2cli.terminal.notes import Notes

    with Notes(quiet=quiet) as notes:
        checkpoint = find_checkpoint(source, revision=revision, offline=offline, listener=notes)
        export_to(
            checkpoint.folder,
            out,
            precision=precision.value,
            origin=checkpoint.origin,
            full_check=check,
            force=force,
            note=notes.note,
            stage=notes.stage,
        )
        notes.note(f"wrote {out}")
