"""The diagnosis: versions, CUDA, a real step, places, hub, and what is wrong.

Nothing here may fail because something else is broken: that is what it is asked to tell.
"""

import importlib
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from gpt2cli.config import ModelConfig
from gpt2cli.doctor.facts import CheckedModel, Cuda, Diagnosis, HubAnswer, Problem, Step
from gpt2cli.doctor.surroundings import PACKAGES, ask_hub, check_models, list_places, look_at
from gpt2cli.errors import Gpt2Error, Spelling, UsageError
from gpt2cli.machine import find_cpu_name, find_versions
from gpt2cli.model_folder import ModelFolder
from gpt2cli.store import Listener
from gpt2cli.store.hub import is_offline

if TYPE_CHECKING:
    from gpt2cli.engine import Device

_RUNTIMES: Final = ("onnxruntime", "onnxruntime-gpu")
_ONE_RUNTIME: Final = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"
_MODEL: Final = "starter"
_WARM_STEPS: Final = 3


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

    `spell`: how the command line writes an option.

    `folders`: models of the user's own, beside those in the cache.

    Raises:
        UsageError: if `asked` is no device.
    """
    listener.stage("looking at versions and libraries")
    versions = find_versions(PACKAGES)
    engine, broken = _import_engine()
    cuda = _look_at_cuda(engine) if engine is not None else Cuda()
    listener.stage("reading the models")
    # Before a damaged starter is exported again.
    models = list(check_models(verify=verify, folders=folders))
    step = Step(asked, reason=broken)
    if engine is not None:
        listener.stage(f"running a step of {_MODEL}")
        step = _run_step(asked, _Silent(), spell)
    listener.stage("asking the hub")
    hub = ask_hub(offline=offline or is_offline(), ask=ask)
    asked_for = [model for model in models if verify or not model.cached]
    works = step.ran_on is not None and not any(model.fault for model in asked_for)
    return Diagnosis(
        system=platform.platform(),
        python=platform.python_version(),
        cpu=find_cpu_name(),
        cores=None if engine is None else engine.count_cores(),
        versions=versions,
        providers=engine.list_providers() if engine is not None else (),
        cuda=cuda,
        step=step,
        places=[look_at(name, path) for name, path in list_places().items()],
        hub=hub,
        models=models,
        verified=verify,
        problems=list(find_problems(versions, cuda, step, hub, models)),
        works=works,
    )


def find_problems(
    versions: Mapping[str, str],
    cuda: Cuda,
    step: Step,
    hub: HubAnswer,
    models: Sequence[CheckedModel],
) -> Iterator[Problem]:
    """Yield what does not work, the worst first."""
    both = [f"{name} {versions[name]}" for name in _RUNTIMES if name in versions]
    if step.ran_on is None:
        yield Problem(step.reason or f"nothing runs on {step.asked}")
    elif step.reason is not None and cuda.devices:
        yield Problem(f"CUDA is not used, though there is a device: {step.reason}")
    if len(both) > 1 and "both installed" not in (step.reason or ""):
        yield Problem(f"{' and '.join(both)} are both installed: CUDA cannot run", _ONE_RUNTIME)
    outdated = step.reason is not None and "driver" in step.reason  # told already
    if cuda.devices and not outdated and _is_older(cuda.driver_version, cuda.needed_version):
        needed = f"ONNX Runtime needs CUDA {cuda.needed_version}"
        yield Problem(f"the driver runs CUDA {cuda.driver_version}, {needed}", "update the driver")
    if hub.reached is False:
        told = f"{hub.endpoint} cannot be reached ({hub.reason})"
        yield Problem(told, "models that are here run all the same")
    for model in models:
        if model.fault is not None:
            advice = f"gpt2 models rm {Path(model.path).name}" if model.cached else None
            yield Problem(model.fault, advice)


def _import_engine() -> tuple[ModuleType | None, str | None]:
    """Return the engine; where ONNX Runtime is broken, the reason."""
    try:
        return importlib.import_module("gpt2cli.engine"), None
    except Gpt2Error as error:
        return None, str(error)


def _look_at_cuda(engine: ModuleType) -> Cuda:
    driver = engine.ask_driver()
    if "CUDAExecutionProvider" not in engine.list_providers():
        return Cuda(driver.devices, driver.cuda_version, None, driver.reason)
    missing = {library.name: library.reason for library in engine.preload_libraries()}
    return Cuda(
        driver.devices,
        driver.cuda_version,
        engine.find_cuda_version(),
        driver.reason,
        missing,
        engine.CUDA_PIP if missing else None,
    )


def _run_step(asked: str, listener: Listener, spell: Spelling) -> Step:
    """Load the starter where it was asked for, and decode."""
    from gpt2cli.device_choice import forget_failure
    from gpt2cli.loading import load_model

    forget_failure()  # who asks the doctor wants it tried
    try:
        config = ModelConfig(model=_MODEL, device=asked, offline=True)
        model = load_model(config, max_slots=1, listener=listener)
        engine = model.engine
        engine.extend(0, [0], [0])
        seconds = [_time(lambda: engine.decode([0])) for _ in range(_WARM_STEPS)]
        nodes = _find_nodes_on_cpu(model.stored.folder, engine.device)
    except UsageError:
        raise
    except (Gpt2Error, OSError) as error:
        reason = error.tell(spell) if isinstance(error, Gpt2Error) else str(error)
        return Step(asked, reason=reason)
    return Step(
        asked,
        str(engine.device),
        model.stored.folder.precision,
        1000 * min(seconds),
        model.device_reason,
        nodes,
    )


class _Silent:
    """Takes what loading would tell the user: all of it stands in the diagnosis."""

    watched = False

    def note(self, text: str) -> None:
        """Take a sentence."""

    def stage(self, text: str) -> None:
        """Take what goes on."""

    def pause(self) -> None:
        """Do nothing: nothing is shown."""


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _find_nodes_on_cpu(folder: ModelFolder, device: "Device") -> dict[str, int]:
    """Return how many nodes of each operator ONNX Runtime keeps on the CPU in a CUDA session."""
    from gpt2cli.engine import profile_step

    if device.kind == "cpu":
        return {}
    counts: dict[str, int] = {}
    for node in profile_step(folder, device):
        if node.provider != device.provider:
            counts[node.operator] = counts.get(node.operator, 0) + 1
    return counts


def _is_older(version: str | None, needed: str | None) -> bool:
    try:
        have, want = ([int(part) for part in (v or "").split(".")] for v in (version, needed))
    except ValueError:
        return False
    return have[0] < want[0]  # within a major version an older driver runs newer libraries
