"""Shows a diagnosis: a fact on each line for people, or one JSON record."""

import json as json_format
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from gpt2cli.doctor import Diagnosis
from gpt2cli.terminal.tables import format_size

_WIDTH: Final = 11  # of the longest name, and two spaces
_ABSENT: Final = "No such file"


def format_diagnosis(diagnosis: Diagnosis, *, json: bool) -> str:
    """Return a diagnosis as one line of JSON, or as lines."""
    if json:
        # Not by gpt2cli.records, which imports what may be broken.
        return json_format.dumps(asdict(diagnosis), ensure_ascii=False) + "\n"
    return "".join(f"{name:{_WIDTH}}{text}\n" for name, text in _list_lines(diagnosis))


def _list_lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    yield "system", f"{diagnosis.system}, Python {diagnosis.python}"
    cores = "" if diagnosis.cores is None else f", {diagnosis.cores} cores allowed"
    yield "processor", f"{diagnosis.cpu}{cores}"
    yield "versions", ", ".join(f"{name} {v}" for name, v in diagnosis.versions.items())
    yield "providers", ", ".join(diagnosis.providers) or "none"
    yield from _describe_cuda(diagnosis)
    yield "device", _describe_step(diagnosis)
    for place in diagnosis.places:
        access = "writable" if place.writable else "not writable"
        sizes = f"{format_size(place.size)}, {access}, {format_size(place.free)} free"
        yield place.name, f"{place.path}: {sizes}"
    yield "hub", _describe_hub(diagnosis)
    yield "models", _describe_models(diagnosis)
    for problem in diagnosis.problems:
        advice = f"; {problem.advice}" if problem.advice else ""
        yield "problem", f"{problem.text}{advice}"
    yield "works", _describe_verdict(diagnosis)


def _describe_cuda(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    cuda = diagnosis.cuda
    if cuda.devices:
        devices = f"{cuda.devices} device{'' if cuda.devices == 1 else 's'}"
        yield "driver", f"{devices}, CUDA {cuda.driver_version}"
    else:
        yield "driver", cuda.reason or "not asked"
    if not diagnosis.providers:
        yield "libraries", "not looked for"
    elif cuda.needed_version is None:
        yield "libraries", "this ONNX Runtime has no CUDA"
    elif cuda.missing:
        lacking = ", ".join(_describe_library(*library) for library in cuda.missing.items())
        unneeded = "" if cuda.devices else " (needed only where there is a device)"
        missing = f"of CUDA {cuda.needed_version} missing: {lacking}; {cuda.advice}"
        yield "libraries", f"{missing}{unneeded}"
    else:
        yield "libraries", f"those of CUDA {cuda.needed_version} are there"


def _describe_verdict(diagnosis: Diagnosis) -> str:
    if not diagnosis.works:
        return "no: what was asked for cannot work; see the problems"
    return f"yes, on {diagnosis.step.ran_on}"


def _describe_library(name: str, reason: str) -> str:
    """Return a library's name, and why it cannot be loaded if it is there."""
    return name if _ABSENT in reason else f"{name} ({reason})"


def _describe_step(diagnosis: Diagnosis) -> str:
    step = diagnosis.step
    if step.ran_on is None:
        return f"{step.asked}: nothing runs there; see the problem below"
    text = f"{step.asked}: a step of the starter model in {step.precision} ran on {step.ran_on}"
    text += f" in {step.milliseconds:.1f} ms"
    if step.reason is not None:
        text += f"; not on CUDA: {'see below' if diagnosis.cuda.devices else step.reason}"
    if step.nodes_on_cpu:
        nodes = ", ".join(f"{count} {name}" for name, count in step.nodes_on_cpu.items())
        text += f"; nodes on the CPU: {nodes}"
    return text


def _describe_hub(diagnosis: Diagnosis) -> str:
    hub = diagnosis.hub
    if hub.reached is None:
        return f"{hub.endpoint}: not asked"
    if not hub.reached:
        return f"{hub.endpoint}: {hub.reason}"
    return f"{hub.endpoint}: answers after {hub.seconds:.2f} s"


def _describe_models(diagnosis: Diagnosis) -> str:
    models = diagnosis.models
    damaged = sum(model.fault is not None for model in models)
    checked = "read whole" if diagnosis.verified else "--verify reads them whole"
    own = sum(not model.cached for model in models)
    named = f", {own} named" if own else ""
    return f"{len(models) - own} cached{named}, {damaged} damaged ({checked})"
