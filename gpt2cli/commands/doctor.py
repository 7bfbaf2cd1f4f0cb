"""`gpt2 doctor`: what this machine can run, and what mends what it cannot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpt2cli import exit_codes
from gpt2cli.config import REPORT, ModelConfig, ReportConfig
from gpt2cli.option_kinds import SWITCH, option
from gpt2cli.options import spell_flag, takes
from gpt2cli.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorConfig:
    """What is looked at, and how it is told."""

    verify: bool = option(
        False, "Read every model whole, to find damage.", REPORT, kind=SWITCH, settable=False
    )
    json: bool = option(
        False, "Print one JSON record, not lines.", REPORT, kind=SWITCH, settable=False
    )


@takes(
    ModelConfig, DoctorConfig, ReportConfig,
    without={"model", "revision", "precision", "threads", "stats"},
)  # fmt: skip
def doctor(
    *,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER ...",
            show_default=False,
            help="Model folders of your own, to look at as at those in the cache.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Tell what this machine can run, and what is missing.

    It runs a step of the starter model where --device asks for it, so what it
    says of the device has been tried; in a CUDA session it counts the nodes that
    ONNX Runtime keeps on the CPU. Problems come last, each with how to fix it.
    The exit code is 1 if what was asked for cannot work: nothing runs on
    --device, a FOLDER is damaged, or --verify finds a damaged model.

    With --json it is one record: "system", "python", "cpu", "cores", "versions",
    "providers", "cuda", "step", "places", "hub", "models", "verified",
    "problems" and "works".

    For example:

    gpt2 doctor

    gpt2 doctor --device cuda --json | jq .problems

    gpt2 doctor --verify ./my-model
    """
    from gpt2cli.doctor import diagnose  # heavy: not for --help
    from gpt2cli.terminal.doctor_view import format_diagnosis
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result

    looking, where = settings.make(DoctorConfig), settings.make(ModelConfig)
    quiet = settings.make(ReportConfig).quiet
    with Notes(quiet=quiet) as notes, open_result(None) as writer:
        found = diagnose(
            where.device,
            offline=where.offline,
            verify=looking.verify,
            folders=folders or (),
            listener=notes,
            spell=spell_flag,
        )
        notes.pause()
        writer.write(format_diagnosis(found, json=looking.json))
    if not found.works:
        raise typer.Exit(exit_codes.FAILED)
