"""From a model's name to what runs it: engine, tokenizer and sampler, ready to use."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from gpt2cli.engine import AUTO, Device, Engine, choose_device, choose_slots, count_cores
from gpt2cli.errors import DeviceError, UsageError
from gpt2cli.sampling import Sampler
from gpt2cli.store import Listener, StoredModel, find_model
from gpt2cli.store.exports import check_again
from gpt2cli.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, and what records tell of it."""

    stored: StoredModel
    engine: Engine
    tokenizer: Tokenizer
    sampler: Sampler


def load_model(
    name: str | None,
    *,
    revision: str | None,
    precision: str,
    device: str,
    threads: int | None,
    offline: bool,
    max_slots: int | None,
    listener: Listener,
) -> LoadedModel:
    """Find and load a model; None is the default one. `max_slots` None: as many as pay.

    Raises:
        ModelError: if it cannot be had, converted or loaded.
        DeviceError: if the device asked for cannot run it.
        UsageError: if an option does not fit the model.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"--threads: expected a number 1 or more, found {threads}")
    where = choose_device(device)
    stored = find_model(
        name, revision=revision, precision=precision, offline=offline, listener=listener
    )
    listener.stage(f"loading {stored.name}")
    cores = threads or count_cores()
    slots = max_slots or choose_slots(stored.folder.shape, cores)
    open_on = functools.partial(Engine, stored.folder, max_slots=slots, threads=cores)
    engine = open_engine(open_on, where, may_fall_back=device == AUTO, listener=listener)
    check_again(stored.folder, engine.device.provider)
    sampler = Sampler(stored.folder.missing_ids)
    return LoadedModel(stored, engine, Tokenizer(stored.folder), sampler)


def open_engine(
    open_on: Callable[[Device], Engine], device: Device, *, may_fall_back: bool, listener: Listener
) -> Engine:
    """Open the engine on `device`; where nobody named one, on the CPU if that fails, with a note.

    Raises:
        DeviceError: if the device cannot run the model and was asked for.
    """
    try:
        return open_on(device)
    except DeviceError as error:
        if not may_fall_back:
            raise
        listener.note(f"running on the CPU, because of {error}")
        return open_on(Device("cpu"))
