"""One shape of call of a model's graph: what stays the same between calls is bound once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt2cli.engine.cache import DeviceCache, HostCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import failures_told

Logits = NDArray[np.float32]


class Step:
    """One shape of call with its cache rows and its logits bound once; the ids are bound anew."""

    def __init__(
        self,
        session: Any,
        cache: HostCache | DeviceCache,
        device: Device,
        first_row: int,
        axes: tuple[int, int, int],
        steps: int,
    ) -> None:
        self._session = session
        self._device = device
        self._place = (axes[0], cache.version, first_row)
        self._binding = session.io_binding()
        cache.bind(self._binding, first_row, axes[0])
        if steps > 1:
            assert isinstance(cache, HostCache)
            cache.bind_steps(self._binding, first_row, steps)
        # Also for reading: the input has no default.
        if any(value.name == "stepwise" for value in session.get_inputs()):
            self._binding.bind_cpu_input("stepwise", np.array(steps > 1))
        self._logits: Logits = np.empty(axes, np.float32)  # [B, K, V], on the host
        self._binding.bind_output("logits", "cpu", 0, np.float32, axes, self._logits.ctypes.data)

    def serves(self, rows: int, cache_version: int, first_row: int = 0) -> bool:
        """Tell whether the bound addresses and shapes still hold."""
        return (rows, cache_version, first_row) == self._place

    def run(
        self,
        input_ids: NDArray[np.int64],
        position_ids: NDArray[np.int64],
        logit_positions: NDArray[np.int64],
    ) -> Logits:
        """Run the graph on [B, S] ids and return [B, K, V], valid until the next run."""
        rows, length = input_ids.shape
        size = f"{rows} x {length} token{'s' if rows * length > 1 else ''}"
        with failures_told(self._device, f", at a step of {size}"):
            # On a device, binding is what copies: so these are bound at every step.
            self._binding.bind_cpu_input("input_ids", input_ids)
            self._binding.bind_cpu_input("position_ids", position_ids)
            self._binding.bind_cpu_input("logit_positions", logit_positions)
            self._session.run_with_iobinding(self._binding)
        return self._logits
