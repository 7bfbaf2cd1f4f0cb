"""The diagnosis: versions, CUDA, a real step, places, hub, and what is wrong.

Nothing here may fail because something else is broken: its task is to say what is broken. So what
needs ONNX Runtime is imported where its failure is caught.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpt2cli.config import ModelConfig
from gpt2cli.doctor.surroundings import (
    CheckedModel,
    HubAnswer,
    Place,
    ask_hub,
    check_models,
    list_places,
    look_at,
)
from gpt2cli.errors import Gpt2Error, Spelling, UsageError
from gpt2cli.machine import ONE_RUNTIME_PIP, RUNTIMES, count_cores, find_cpu_name, find_versions
from gpt2cli.store.hub import find_offline_variable
from gpt2cli.store.store import Listener

_PACKAGES: Final = (
    *("gpt2", *RUNTIMES, "onnx", "numpy", "tokenizers", "huggingface-hub", "llguidance"),
)
_MODEL: Final = "starter"
_WARM_STEPS: Final = 3


@dataclass(frozen=True, slots=True)
class Step:
    """The result of running the starter model on the device that was asked for."""

    asked: str
    ran_on: str | None = None  # None: nowhere
    precision: str | None = None
    milliseconds: float | None = None  # of one decoded token
    reason: str | None = None  # why not on CUDA, or not at all


@dataclass(frozen=True, slots=True)
class Cuda:
    """What the driver and the libraries say about CUDA."""

    devices: int = 0
    driver_version: str | None = None  # the newest CUDA that the driver runs
    needed_version: str | None = None  # that ONNX Runtime was built for; None: without CUDA
    reason: str | None = None  # why there is no device
    missing: Mapping[str, str] = field(default_factory=dict)  # library -> why it cannot be loaded
    advice: str | None = None  # what brings the libraries


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not work, or not well; `advice` says how to fix it."""

    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found. `works`: all that was asked for can be done."""

    system: str
    python: str
    cpu: str
    cores: int
    versions: Mapping[str, str]
    providers: Sequence[str]
    cuda: Cuda
    step: Step
    places: Sequence[Place]
    hub: HubAnswer
    models: Sequence[CheckedModel]
    verified: bool
    problems: Sequence[Problem]
    works: bool


def diagnose(
    asked: str,
    *,
    offline: bool,
    verify: bool,
    folders: Sequence[Path] = (),
    listener: Listener,
    ask: Callable[[str], None] | None = None,
    spell: Spelling = str,
) -> Diagnosis:
    """Look at everything; `verify` reads the models whole, `ask` asks the hub.

    `folders`: models of the user's own, beside those in the cache. `spell`: how the command line
    writes an option.
    """
    listener.stage("checking versions and libraries")
    versions = find_versions(_PACKAGES)
    providers, cuda, broken = _look_at_runtime()
    listener.stage("reading the models")
    # Before a damaged starter is exported again.
    models = list(check_models(verify=verify, folders=folders))
    step = Step(asked, reason=broken)
    if broken is None:
        listener.stage(f"running a step of {_MODEL}")
        step = _run_step(asked, spell)
    listener.stage("contacting the hub")
    hub = ask_hub(offline=offline or find_offline_variable() is not None, ask=ask)
    asked_for = [model for model in models if verify or not model.cached]
    return Diagnosis(
        system=platform.platform(),
        python=platform.python_version(),
        cpu=find_cpu_name(),
        cores=count_cores(),
        versions=versions,
        providers=providers,
        cuda=cuda,
        step=step,
        places=[look_at(name, path) for name, path in list_places().items()],
        hub=hub,
        models=models,
        verified=verify,
        problems=list(find_problems(versions, cuda, step, hub, models)),
        works=step.ran_on is not None and not any(model.fault for model in asked_for),
    )


def find_problems(
    versions: Mapping[str, str],
    cuda: Cuda,
    step: Step,
    hub: HubAnswer,
    models: Sequence[CheckedModel],
) -> Iterator[Problem]:
    """Yield what does not work, the worst first."""
    reason = step.reason or ""
    if step.ran_on is None:
        yield Problem(reason or f"nothing runs on {step.asked}")
    elif reason and cuda.devices:
        yield Problem(f"CUDA is not used, though there is a device: {reason}")
    both = [f"{name} {versions[name]}" for name in RUNTIMES if name in versions]
    if len(both) > 1 and "both installed" not in reason:
        yield Problem(f"{' and '.join(both)} are both installed: CUDA cannot run", ONE_RUNTIME_PIP)
    outdated = "driver" in reason  # reported already
    if cuda.devices and not outdated and _is_older(cuda.driver_version, cuda.needed_version):
        needed = f"ONNX Runtime needs CUDA {cuda.needed_version}"
        yield Problem(f"the driver runs CUDA {cuda.driver_version}, {needed}", "update the driver")
    if hub.reached is False:
        told = f"{hub.endpoint} cannot be reached ({hub.reason})"
        yield Problem(told, "models that are on this machine still run")
    for model in models:
        if model.fault is not None:
            advice = f"gpt2 models rm {Path(model.path).name}" if model.cached else None
            yield Problem(model.fault, advice)


def _look_at_runtime() -> tuple[Sequence[str], Cuda, str | None]:
    """Return providers, CUDA, and where ONNX Runtime is broken the reason."""
    try:
        from gpt2cli.engine import devices, failures
    except Gpt2Error as error:
        return (), Cuda(), str(error)
    driver, providers = devices.ask_driver(), failures.list_providers()
    has_cuda = devices.Device("cuda").provider in providers
    missing = failures.preload_libraries() if has_cuda else {}
    cuda = Cuda(
        driver.devices,
        driver.cuda_version,
        failures.find_cuda_version() if has_cuda else None,
        driver.reason,
        missing,
        devices.CUDA_PIP if missing else None,
    )
    return providers, cuda, None


def _run_step(asked: str, spell: Spelling) -> Step:
    """Load the starter where it was asked for, and decode."""
    from gpt2cli.loading import load_model

    try:
        config = ModelConfig(model=_MODEL, device=asked, offline=True)
        model = load_model(config, max_slots=1, listener=_Silent())
        engine = model.engine
        engine.extend(0, [0], [0])
        seconds = []
        for _ in range(_WARM_STEPS):
            started = time.perf_counter()
            engine.decode([0])
            seconds.append(time.perf_counter() - started)
    except UsageError:
        raise
    except Gpt2Error as error:
        return Step(asked, reason=error.tell(spell))
    except OSError as error:
        return Step(asked, reason=str(error))
    precision = model.stored.folder.precision
    return Step(asked, str(engine.device), precision, 1000 * min(seconds), model.device_reason)


class _Silent:
    """Discards notes while loading: the diagnosis has it all."""

    watched = False

    def note(self, text: str) -> None:
        """Take a sentence."""

    def stage(self, text: str) -> None:
        """Take what goes on."""

    def pause(self) -> None:
        """Do nothing: nothing is shown."""


def _is_older(version: str | None, needed: str | None) -> bool:
    """Compare major versions: within one an older driver runs newer libraries."""
    majors = [(text or "").partition(".")[0] for text in (version, needed)]
    return all(majors) and int(majors[0]) < int(majors[1])
