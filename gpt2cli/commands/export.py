"""`gpt2 export`: a checkpoint to a model folder of the user's own."""

from pathlib import Path
from typing import Annotated

import typer

from gpt2cli.commands.options import ExportPrecision


def export(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Checkpoint folder, or a model's name or hub id as --model takes it.",
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Model folder to write; --model takes it.")
    ],
    precision: Annotated[
        ExportPrecision, typer.Option(help="Precision of the weights; fp16 is for CUDA.")
    ] = ExportPrecision.FP32,
    revision: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Branch, tag or commit of a hub model. Default main."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", metavar="", help="Never ask the network.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", metavar="", help="Check the graph at all positions, not only at a few."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Replace an existing model folder.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="No notes on stderr.")
    ] = False,
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
            stage=notes.stage,
        )
        notes.note(f"wrote {out}")
