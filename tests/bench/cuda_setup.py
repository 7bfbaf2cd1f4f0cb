"""What the steps of `tests.bench.cuda` share: the device, the model folders, engines and ids."""

import pathlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

from gpt2cli.engine.cache import DeviceCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.session import cache_dtype, open_session
from gpt2cli.model_folder import ModelFolder


class Setup:
    """The device, the checkpoint and its model folders, by precision."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.checkpoint = pathlib.Path()
        self.folders: dict[str, ModelFolder] = {}

    @property
    def limit(self) -> int:
        """The model's context."""
        return self.folders["fp32"].shape.n_positions

    def open_engine(self, precision: str, *, slots: int) -> Engine:
        """Return an engine on the device; on the CPU with the kind of cache that a device has."""
        folder = self.folders[precision]
        if self.device.kind != "cpu":
            return Engine(folder, self.device, max_slots=slots)
        element = cache_dtype(open_session(folder, self.device, 1))
        cache = DeviceCache(folder.shape, self.device, rows=slots, element=element)
        return Engine(folder, self.device, max_slots=slots, cache=cache)

    def open_reference(self, *, slots: int) -> Engine:
        """Return an engine on the CPU in fp32, which tests hold against the oracle."""
        return Engine(self.folders["fp32"], Device("cpu"), max_slots=slots)

    def draw_ids(self, seed: int, length: int) -> list[int]:
        """Return seeded ids."""
        draw = random.Random(seed)
        vocab_size = self.folders["fp32"].shape.vocab_size
        return [draw.randrange(vocab_size) for _ in range(length)]


@contextmanager
def emptied(engine: Engine) -> Iterator[Engine]:
    """Free every slot at the end."""
    try:
        yield engine
    finally:
        while engine.lengths:
            engine.free(len(engine.lengths) - 1)
