"""`gpt2 doctor`: its options, and how a diagnosis is shown."""

import json as json_format
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpt2cli.config import REPORT, ModelConfig, ReportConfig
from gpt2cli.declarations import option
from gpt2cli.errors import ExitCode
from gpt2cli.options import spell_flag, takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.tables import format_size

if TYPE_CHECKING:
    from gpt2cli.doctor.findings import Cuda, Diagnosis, HubAnswer, Step
    from gpt2cli.store.catalogue import CachedModel

_WIDTH: Final = 11  # of the longest name, and two spaces
_ABSENT: Final = "No such file"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorConfig:
    """What is checked, and how it is shown."""

    verify: bool = option(False, "Read every model whole, to find damage.", REPORT)
    json: bool = option(False, "Print one JSON record, not lines.", REPORT)


@takes(
    ModelConfig, DoctorConfig, ReportConfig,
    without={"model", "revision", "step", "adapter", "precision", "threads", "stats"},
)  # fmt: skip
def doctor(
    *,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER ...",
            show_default=False,
            help="Model folders of your own to check, beside those in the cache.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Show what this machine can run, and what is missing.

    It runs a step of the starter model on --device, so what it says about the
    device has been tried. Problems come last, each with its fix. The exit code is
    1 if what you asked for cannot work: nothing runs on --device, a FOLDER is
    damaged, or --verify finds a damaged model.

    With --json it is one record: "system", "python", "cpu", "cores", "versions",
    "providers", "cuda", "step", "places", "hub", "models", "verified",
    "problems" and "works".

    For example:

    gpt2 doctor

    gpt2 doctor --device cuda --json | jq .problems

    gpt2 doctor --verify ./my-model
    """
    from gpt2cli.doctor.diagnosis import diagnose  # heavy: not for --help
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
        raise typer.Exit(ExitCode.FAILED)


def format_diagnosis(diagnosis: "Diagnosis", *, json: bool) -> str:
    """Return a diagnosis as one line of JSON, or as lines."""
    if json:
        # Not by gpt2cli.records, which imports what may be broken.
        return json_format.dumps(asdict(diagnosis), ensure_ascii=False, default=str) + "\n"
    return "".join(f"{name:{_WIDTH}}{text}\n" for name, text in _list_lines(diagnosis))


def _list_lines(found: "Diagnosis") -> Iterator[tuple[str, str]]:
    yield "system", f"{found.system}, Python {found.python}"
    yield "processor", f"{found.cpu}, {found.cores} cores allowed"
    yield "versions", ", ".join(f"{name} {v}" for name, v in found.versions.items())
    yield "providers", ", ".join(found.providers) or "none"
    yield "driver", _describe_driver(found.cuda)
    yield "libraries", _describe_libraries(found.cuda) if found.providers else "not looked for"
    yield "device", _describe_step(found.step, has_device=found.cuda.devices > 0)
    if found.step.identities is not None:
        yield "exactness", _describe_identities(found.step.identities)
    for place in found.places:
        access = "writable" if place.writable else "not writable"
        sizes = f"{format_size(place.size)}, {access}, {format_size(place.free)} free"
        yield place.name, f"{place.path}: {sizes}"
    yield "hub", _describe_hub(found.hub)
    yield "models", _describe_models(found.models, verified=found.verified)
    for problem in found.problems:
        advice = f"; {problem.advice}" if problem.advice else ""
        yield "problem", f"{problem.text}{advice}"
    no = "no: what was asked for cannot work; see the problems"
    yield "works", f"yes, on {found.step.ran_on}" if found.works else no


def _describe_driver(cuda: "Cuda") -> str:
    if not cuda.devices:
        return cuda.reason or "not asked"
    return f"{cuda.devices} device{'' if cuda.devices == 1 else 's'}, CUDA {cuda.driver_version}"


def _describe_libraries(cuda: "Cuda") -> str:
    if cuda.needed_version is None:
        return "this ONNX Runtime has no CUDA"
    if not cuda.missing:
        return f"those of CUDA {cuda.needed_version} are there"
    lacking = ", ".join(  # with the reason, if a library is there
        name if _ABSENT in reason else f"{name} ({reason})" for name, reason in cuda.missing.items()
    )
    unneeded = "" if cuda.devices else " (needed only where there is a device)"
    return f"of CUDA {cuda.needed_version} missing: {lacking}; {cuda.advice}{unneeded}"


def _describe_step(step: "Step", *, has_device: bool) -> str:
    if step.ran_on is None:
        return f"{step.asked}: nothing runs there; see the problem below"
    text = f"{step.asked}: a step of the starter model in {step.precision} ran on {step.ran_on}"
    text += f" in {step.milliseconds:.1f} ms"
    if step.reason is not None:
        text += f"; not on CUDA: {'see below' if has_device else step.reason}"
    return text


def _describe_identities(kept: Mapping[str, bool | None]) -> str:
    """Say in which ways of computing a text the starter model has the same bits here."""
    words = {
        "rows": "alone and beside others",
        "cuts": "in one piece and in several",
        "steps": "token by token and by a draft",
        "together": "scored by itself and with others",
    }
    held = [words[name] for name, holds in kept.items() if holds]
    broken = [words[name] for name, holds in kept.items() if not holds]
    told = [f"a text is the same {', '.join(held)}"] if held else []
    return "; ".join(told + [f"not the same {text}" for text in broken])


def _describe_hub(hub: "HubAnswer") -> str:
    if hub.reached is None:
        return f"{hub.endpoint}: not asked"
    if not hub.reached:
        return f"{hub.endpoint}: {hub.reason}"
    return f"{hub.endpoint}: answers after {hub.seconds:.2f} s"


def _describe_models(models: "Sequence[CachedModel]", *, verified: bool) -> str:
    damaged = sum(model.fault is not None for model in models)
    checked = "read whole" if verified else "--verify reads them whole"
    own = sum(not model.cached for model in models)
    named = f", {own} named" if own else ""
    return f"{len(models) - own} cached{named}, {damaged} damaged ({checked})"
