"""The diagnosis: versions, CUDA, a real step, places, hub, and what is wrong.

Nothing here may fail because something else is broken: its task is to say what is broken. So what
needs ONNX Runtime is imported where its failure is caught.
"""

import os
import platform
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from gpt2cli.config import ModelConfig
from gpt2cli.doctor.findings import Cuda, Diagnosis, HubAnswer, Place, Problem, Step
from gpt2cli.errors import Gpt2Error, Spelling, UsageError
from gpt2cli.machine import ONE_RUNTIME_PIP, RUNTIMES, count_cores, find_cpu_name, find_versions
from gpt2cli.store.catalogue import CachedModel, find_fault, list_cached, summarise_folder
from gpt2cli.store.hub import answer_within, find_offline_variable
from gpt2cli.store.memory import cache_folder, state_folder
from gpt2cli.store.models_folder import spare_models_folder
from gpt2cli.store.store import Listener
from gpt2cli.terminal.notes import Notes

_PACKAGES: Final = "gpt2", *RUNTIMES, "onnx", "numpy", "tokenizers", "huggingface-hub", "llguidance"
_MODEL: Final = "starter"
_WARM_STEPS: Final = 3  # of which the fastest counts: the first one also takes memory
_HUB: Final = "https://huggingface.co"
_ASK_SECONDS: Final = 4.0  # a hub that is slower is of no use to who waits for a download
_SERVER_FAULTS: Final = 500  # HTTP statuses from here on


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
    models = check_models(verify=verify, folders=folders)
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
    models: Sequence[CachedModel],
) -> Iterator[Problem]:
    """Yield what does not work, the worst first."""
    reason = step.reason or ""
    if step.ran_on is None:
        yield Problem(reason or f"nothing runs on {step.asked}")
    elif reason and cuda.devices:
        yield Problem(f"CUDA is not used, though there is a device: {reason}")
    both = [f"{name} {versions[name]}" for name in RUNTIMES if name in versions]
    if len(both) > 1:
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
            advice = f"gpt2 models rm {model.path.name}" if model.cached else None
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
        # Silently: what would be noted stands in the diagnosis.
        model = load_model(config, max_slots=1, verifying=True, listener=Notes(quiet=True))
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
    return Step(
        asked,
        str(engine.device),
        model.stored.folder.precision,
        1000 * min(seconds),
        model.device_reason,
        asdict(engine.identities) if engine.device.kind == "cpu" else None,
    )


def _is_older(version: str | None, needed: str | None) -> bool:
    """Compare major versions: within one an older driver runs newer libraries."""
    majors = [(text or "").partition(".")[0] for text in (version, needed)]
    return all(majors) and int(majors[0]) < int(majors[1])


def list_places() -> dict[str, Path]:
    """Return our folders and the hub's own cache, by name."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    hub = Path(os.environ.get("HF_HOME") or Path(home) / "huggingface") / "hub"
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or hub)
    spare = spare_models_folder()
    return {
        "cache": cache_folder(),
        **({"spare": spare} if spare.exists() else {}),
        "state": state_folder(),
        "hub-cache": hub.expanduser(),
    }


def look_at(name: str, path: Path) -> Place:
    """Return a folder's size, and whether it can be written or created; nothing is written."""
    size = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                size += os.lstat(os.path.join(folder, file)).st_size  # noqa: PTH118
            except OSError:
                continue
    there = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = 0
    return Place(name, str(path), size, free, os.access(there, os.W_OK | os.X_OK))


def check_models(*, verify: bool, folders: Sequence[Path] = ()) -> list[CachedModel]:
    """Return the cached models, then the user's own; `verify` reads them whole for their faults."""
    own = [replace(summarise_folder(folder), cached=False) for folder in folders]
    models = [*list_cached(), *own]
    return [replace(model, fault=find_fault(model)) for model in models] if verify else models


def ask_hub(*, offline: bool, ask: Callable[[str], None] | None = None) -> HubAnswer:
    """Ask the hub for an answer of any kind, for some seconds at most."""
    endpoint = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    if offline:
        return HubAnswer(endpoint, None)
    started = time.monotonic()
    try:
        answer_within(_ASK_SECONDS, lambda: (ask or _ask)(endpoint))
    except Exception as error:  # a proxy's, a name server's, TLS's
        reason = getattr(error, "reason", error)
        told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return HubAnswer(endpoint, False, reason=told)
    return HubAnswer(endpoint, True, time.monotonic() - started)


def _ask(endpoint: str) -> None:
    """Ask for the default model's config: some networks let the hub's front page through alone."""
    url = f"{endpoint}/openai-community/gpt2/resolve/main/config.json"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method="HEAD"), timeout=_ASK_SECONDS
        ):
            return
    except urllib.error.HTTPError as error:
        if error.code >= _SERVER_FAULTS:
            raise
