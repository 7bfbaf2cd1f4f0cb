"""Loads a model by its name: engine, tokenizer and sampler, ready to use."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeVar

from gpt2cli.config import AUTO, ModelConfig
from gpt2cli.engine.bits import find_digest
from gpt2cli.engine.cache import choose_slots
from gpt2cli.engine.devices import Device, DeviceChoice, find_device
from gpt2cli.engine.engine import Engine, Identities
from gpt2cli.engine.failures import captured
from gpt2cli.engine.identities import find_identities
from gpt2cli.engine.session import try_cuda
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError, UsageError
from gpt2cli.generation.drafting import Drafting
from gpt2cli.machine import count_cores, find_cpu_name
from gpt2cli.model_folder import ModelFolder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.store.exports import check_again, keep_identities, recall_identities
from gpt2cli.store.store import Listener, Store, StoredModel
from gpt2cli.tokenizer import Tokenizer

_HALF: Final = "fp16"
# What `--precision auto` exports. Half precision halves what CUDA reads for a token. The CPU has no
# such arithmetic: ONNX Runtime 1.31.1 keeps float32 copies beside the weights. Measured at 124M:
# as fast as fp32, with 160 MB more and 0.8 s longer to load.
_AUTO_PRECISIONS: Final = {"cpu": "fp32", "cuda": _HALF}

# How long the tokenizer's thread waits, so that ONNX Runtime, which packs the weights without the
# GIL, has most likely begun. The tokenizer's file is read with the GIL held: if it came first, ONNX
# Runtime would wait for it.
_HEAD_START: Final = 0.005  # seconds

_log = logging.getLogger(__name__)
_Opened = TypeVar("_Opened")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, and what records say about it."""

    stored: StoredModel
    engine: Engine
    tokenizer: Tokenizer
    sampler: Sampler
    device_reason: str | None = None  # why `auto` did not take CUDA
    drafting: Drafting | None = None


def load_model(
    config: ModelConfig,
    *,
    max_slots: int | None,
    min_slots: int = 1,
    verifying: bool = False,
    listener: Listener,
) -> LoadedModel:
    """Find and load a model.

    `max_slots`: how many sequences run side by side (None: as many as are worth it); if the
    device's memory is too small there are fewer, with a note. `min_slots`: the fewest that are of
    use. `verifying`: so that it can verify what a draft proposes, where that is possible.

    Raises:
        ModelError: if it cannot be had, converted or loaded.
        DeviceError: if the device asked for cannot run it.
        UsageError: if an option does not fit the model.
    """
    cores = config.threads or count_cores()

    def open_on(where: Device) -> tuple[StoredModel, Engine, Future[Tokenizer]]:
        started = time.perf_counter()
        stored = _find_for(where, config, listener)
        _log_model(stored, time.perf_counter() - started)
        listener.stage(f"loading {stored.name}")
        if where.kind == "cuda":  # first, while the memory is free: it loads the weights too
            _check_on(stored.folder, where)
        slots = max_slots or choose_slots(stored.folder.shape, where, cores)
        if where.kind != "cpu":  # whose cache is as large as it begins
            slots = max(slots, min_slots)

        verifies = verifying and where.kind == "cpu"
        verifies = verifies and stored.folder.verifying_graph_file is not None

        def open_with(count: int) -> Engine:
            return Engine(
                stored.folder,
                where,
                max_slots=count,
                threads=cores,
                verifying=verifies,
                alternating=verifies,
            )

        tokenizer = _load_meanwhile(stored.folder, listener.note)
        started = time.perf_counter()
        engine = open_fitting(open_with, slots, fewest=min_slots, listener=listener)
        _log_engine(engine, time.perf_counter() - started)
        return stored, engine, tokenizer

    choice = find_device(config.device, attempt=try_cuda)
    (stored, engine, tokenizer), reason = open_engine(
        open_on, choice, may_fall_back=config.device == AUTO, listener=listener
    )
    if engine.device.kind == "cpu":
        check_again(stored.folder, engine.device.provider)
        engine.identities = _find_identities(engine, stored.folder)
    same = [name for name, holds in asdict(engine.identities).items() if holds]
    _log.info("ways of computing that give the same bits: %s", ", ".join(same) or "none")
    sampler = Sampler(stored.folder.missing_ids)
    return LoadedModel(stored, engine, tokenizer.result(), sampler, reason)


def _log_model(stored: StoredModel, seconds: float) -> None:
    folder = stored.folder
    told = f"model {stored.title}, {folder.precision}, weights {folder.fingerprint}"
    _log.info("%s, in %s, found in %.3f s", told, folder.path, seconds)


def _log_engine(engine: Engine, seconds: float) -> None:
    told = f"graph {engine.graph_file.name} on {engine.device} ({engine.device.provider})"
    rows = f"threads: {engine.threads}, at most {engine.max_slots} at once"
    version = f"onnxruntime {engine.runtime_version}"
    _log.info("%s, %s, %s, loaded in %.3f s", told, version, rows, seconds)


def _find_identities(engine: Engine, folder: ModelFolder) -> Identities:
    """Return which identities hold here: as kept with the model, or measured now, and kept."""
    conditions = {"onnxruntime": engine.runtime_version, "processor": find_cpu_name()}
    kept = recall_identities(folder, conditions)
    needed = ["rows", "cuts", "together", *(["steps"] if engine.most_steps > 1 else [])]
    if all(isinstance(kept.get(name), bool) for name in needed):
        return Identities(kept["rows"], kept["cuts"], kept.get("steps"), kept["together"])
    found = find_identities(engine)
    keep_identities(folder, conditions, asdict(found))
    return found


def find_stored(config: ModelConfig, *, auto_precision: str, listener: Listener) -> StoredModel:
    """Return the model that was asked for, exported if need be.

    Raises:
        ModelError, UsageError: as `Store.find`.
    """
    store = Store(
        revision=config.revision,
        step=config.step,
        adapters=config.adapter,
        precision=config.precision,
        auto_precision=auto_precision,
        offline=config.offline,
        listener=listener,
    )
    return store.find(config.model)


def _find_for(where: Device, config: ModelConfig, listener: Listener) -> StoredModel:
    precision = choose_precision(config.precision, where)
    stored = find_stored(config, auto_precision=precision, listener=listener)
    if where.kind == "cpu" and stored.folder.precision == _HALF:
        listener.note(f"{stored.name} is fp16: the CPU computes it in fp32, and no faster")
    return stored


def choose_precision(asked: str, device: Device) -> str:
    """Return the precision to export for a device, given the one asked for, which may be `auto`."""
    if asked == _HALF and device.kind == "cpu":
        raise UsageError(
            "fp16 is for CUDA: the CPU computes it in fp32 with more memory",
            "use int8 or fp32",
            option="precision",
        )
    return _AUTO_PRECISIONS[device.kind] if asked == AUTO else asked


def find_usual_precision_on(kind: Literal["cpu", "cuda"]) -> str:
    """Return the precision that is exported for a kind of device when none is named."""
    return choose_precision(AUTO, Device(kind))


def digest_bits(model: LoadedModel) -> str:
    """Return a digest of what an engine computes here: another processor may compute other bits."""
    return find_digest(model.engine)


def find_usual_precision() -> str:
    """Return the precision that is exported when neither precision nor device is named."""
    return choose_precision(AUTO, find_device(AUTO, attempt=try_cuda).device)


def open_engine(
    open_on: Callable[[Device], _Opened],
    choice: DeviceChoice,
    *,
    may_fall_back: bool,
    listener: Listener,
) -> tuple[_Opened, str | None]:
    """Open the engine on the chosen device, or on the CPU if that fails and no device was named.

    Returns it with the reason why CUDA is not used; if there is a CUDA device, a note says so.
    """
    reason = choice.reason
    if not choice.failed:
        try:
            return open_on(choice.device), reason
        except DeviceError as error:
            if not may_fall_back or choice.device.kind == "cpu":
                raise
            reason = error.fault
    listener.note(f"running on the CPU, not on CUDA: {reason}")
    return open_on(Device("cpu")), reason


def open_fitting(
    open_with: Callable[[int], Engine], slots: int, *, fewest: int, listener: Listener
) -> Engine:
    """Open the engine with so many slots, halved until the cache fits.

    A note says if there are fewer: on a device the texts may depend on the number.
    """
    fitting = slots
    while True:
        try:
            engine = open_with(fitting)
        except DeviceFullError:
            if fitting <= fewest:
                raise
            fitting = max(fewest, fitting // 2)
        else:
            break
    if fitting < slots:
        listener.note(f"the memory of {engine.device} holds {fitting} rows at once, not {slots}")
    return engine


def _load_meanwhile(folder: ModelFolder, note: Callable[[str], None]) -> Future[Tokenizer]:
    """Load the tokenizer on a thread while this one loads the weights."""

    def load() -> Tokenizer:
        time.sleep(_HEAD_START)
        return Tokenizer(folder, note)

    executor = ThreadPoolExecutor(max_workers=1)
    tokenizer = executor.submit(load)
    executor.shutdown(wait=False)  # when it is done
    return tokenizer


def _check_on(folder: ModelFolder, device: Device) -> None:
    """Check a graph on a device, once; if it computes wrongly there, it is a DeviceError."""
    try:
        with captured():  # ONNX Runtime prints where it falls back
            check_again(folder, device.provider)
    except ModelError as error:
        raise DeviceError(str(error), "use {device} cpu", option="device", value=device) from error
