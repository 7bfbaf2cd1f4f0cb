"""`gpt2 export`: converts a checkpoint to a model folder at a path of the user's choice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from gpt2cli.config import PRECISIONS, ModelConfig, ReportConfig, adapter_option
from gpt2cli.declarations import option
from gpt2cli.option_kinds import one_of
from gpt2cli.options import complete_model, takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes

_EXPORT: Final = "Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportConfig:
    """How the checkpoint is converted."""

    adapter: tuple[str, ...] = adapter_option(_EXPORT)
    precision: str = option(
        "fp32", "Precision of the weights; fp16 is for CUDA.", _EXPORT, kind=one_of(PRECISIONS)
    )
    portable: bool = option(
        False, "Let Optimum, transformers.js and onnxruntime-genai load the folder too.", _EXPORT
    )
    check: bool = option(False, "Check the graph at all positions, not only at a few.", _EXPORT)
    force: bool = option(False, "Replace an existing model folder.", _EXPORT)


@takes(
    ModelConfig,
    ExportConfig,
    ReportConfig,
    without={"model", "device", "threads", "stats"},
)
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
        Path, typer.Argument(metavar="OUT", help="Model folder to write, for use with --model.")
    ],
    settings: Settings,
) -> None:
    """Convert a checkpoint to an ONNX model folder.

    The folder appears whole and checked, or not at all.

    For example:

    gpt2 export ./my-checkpoint ./my-model --check

    gpt2 generate "Once upon" --model ./my-model
    """
    from gpt2cli.store.exports import export_to
    from gpt2cli.store.store import Store

    how, where = settings.make(ExportConfig), settings.make(ModelConfig)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        store = Store(
            revision=where.revision,
            step=where.step,
            adapters=how.adapter,
            offline=where.offline,
            listener=notes,
        )
        export_to(
            store.find_checkpoint(source),
            out,
            precision=how.precision,
            portable=how.portable,
            full_check=how.check,
            force=how.force,
            note=notes.note,
            stage=notes.stage,
        )
        notes.note(f"wrote {out}")
