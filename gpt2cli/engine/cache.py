"""The memory of the KV cache: on the host it grows with the need, on a device it is fixed.

Both hold, for each layer, keys and values [R, H, M, D] of the dtype that the graph takes: R rows
(slots), M places per row. Whatever a row does not use yet is finite, as the graph asks.
"""

from typing import Any, Final, Protocol

import numpy as np

from gpt2cli.engine.copy_graph import build_copy_graph
from gpt2cli.engine.cuda import DeviceMemory, allocate_zeros, explain_failure
from gpt2cli.engine.devices import Device
from gpt2cli.engine.session import open_copy_session
from gpt2cli.model_folder import ModelShape

_SMALLEST_CAPACITY: Final = 64
_FLOAT32: Final = np.dtype(np.float32)


class KVCache(Protocol):
    """What the engine needs of the cache's memory."""

    rows: int
    capacity: int
    version: int  # changes whenever a bound address has become invalid

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens; what is stored stays."""

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` places of a row to another row."""

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""

    def restart(self, rows: int) -> None:
        """Forget all that is stored; what is more than `rows` rows need is given back."""


class HostCache:
    """KV cache in NumPy arrays, as large as the need: rows and capacity change in steps of two."""

    def __init__(self, shape: ModelShape, *, element: np.dtype[Any] = _FLOAT32) -> None:
        self._shape = shape
        self._element = element
        self.rows = 0
        self.capacity = 0
        self.version = 0
        self._arrays = [np.zeros(self._axes(0, 0), element) for _ in cache_names(shape)]

    def reserve(self, rows: int, length: int) -> None:
        """Make room; a cache four times too long is shrunk, since masked places cost time.

        Rows that nothing needs any more are given back when there is a new cache anyway.
        """
        assert length <= self._shape.n_positions
        capacity = _step_up(length, _SMALLEST_CAPACITY, self._shape.n_positions)
        if self.capacity >= capacity > self.capacity // 4:
            capacity = self.capacity
        if rows <= self.rows and capacity == self.capacity:
            return
        self.rows = _step_up(rows, 1, None)
        kept = min(capacity, self.capacity)
        for index, old in enumerate(self._arrays):  # one at a time: the peak is one layer's copy
            new = np.zeros(self._axes(self.rows, capacity), self._element)  # [R, H, M, D]
            new[: len(old), :, :kept] = old[: self.rows, :, :kept]
            self._arrays[index] = new
        self.capacity = capacity
        self.version += 1

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` places of a row to another row."""
        for array in self._arrays:
            array[target, :, :length] = array[source, :, :length]

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""
        shape = self._axes(rows, self.capacity)
        for name, array in zip(cache_names(self._shape), self._arrays, strict=True):
            address = array.ctypes.data + first_row * array.strides[0]
            _bind_both(binding, name, Device("cpu"), self._element, shape, address)

    def restart(self, rows: int) -> None:
        """Give all memory back; it grows with the need again."""
        self.rows = self.capacity = 0
        self.version += 1
        self._arrays = [np.zeros(self._axes(0, 0), self._element) for _ in self._arrays]

    def _axes(self, rows: int, capacity: int) -> tuple[int, int, int, int]:
        return rows, self._shape.n_head, capacity, self._shape.head_dim


class DeviceCache:
    """KV cache in a device's memory; rows are copied there by a graph, not through the host."""

    def __init__(
        self, shape: ModelShape, device: Device, *, rows: int, element: np.dtype[Any] = _FLOAT32
    ) -> None:
        """Take the memory for all rows at once.

        Raises:
            DeviceFullError: if they do not fit.
        """
        self._shape = shape
        self._device = device
        self._element = element
        self.capacity = shape.n_positions
        self.version = 0
        self._row_axes = (1, shape.n_head, self.capacity, shape.head_dim)
        self._copier: Any = None
        self._take_memory(rows)

    def reserve(self, rows: int, length: int) -> None:
        """Check that there is room: the memory was fixed when the engine was made."""
        assert rows <= self.rows and length <= self.capacity

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy a whole row: its places lie apart by head, so the used part is no one piece."""
        if self._copier is None:
            graph = build_copy_graph(len(self._memory.values), self._row_axes, self._element)
            self._copier = open_copy_session(graph, self._device)
        binding = self._copier.io_binding()
        for index in range(len(self._memory.values)):
            for bind, name, row in (
                (binding.bind_input, f"source.{index}", source),
                (binding.bind_output, f"target.{index}", target),
            ):
                address = self._address(index, row)
                kind, number = self._device.kind, self._device.index
                bind(name, kind, number, self._element.type, self._row_axes, address)
        try:
            self._copier.run_with_iobinding(binding)
        except Exception as error:  # ONNX Runtime's exceptions share no public base
            raise explain_failure(error, self._device, ", copying a row of the cache") from error

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""
        shape = (rows, *self._row_axes[1:])
        for index, name in enumerate(cache_names(self._shape)):
            address = self._address(index, first_row)
            _bind_both(binding, name, self._device, self._element, shape, address)

    def restart(self, rows: int) -> None:
        """Give all memory back and take what `rows` rows need: for a copy there may be no room.

        Raises:
            DeviceFullError: if they do not fit.
        """
        self.version += 1
        self._memory = DeviceMemory((), None)
        self._take_memory(rows)

    def _take_memory(self, rows: int) -> None:
        self.rows = rows
        axes = (rows, *self._row_axes[1:])  # [R, H, M, D]
        count = len(cache_names(self._shape))
        self._memory = allocate_zeros(axes, self._element, self._device, count=count)

    def _address(self, index: int, row: int) -> int:
        row_bytes = int(np.prod(self._row_axes)) * self._element.itemsize
        return int(self._memory.values[index].data_ptr()) + row * row_bytes


def cache_names(shape: ModelShape) -> list[str]:
    """Return the graph's names of keys and values without `past_key_values.` or `present.`."""
    return [f"{layer}.{part}" for layer in range(shape.n_layer) for part in ("key", "value")]


def _bind_both(
    binding: Any,
    name: str,
    device: Device,
    element: np.dtype[Any],
    shape: tuple[int, ...],
    address: int,
) -> None:
    where = (device.kind, device.index, element.type, shape, address)
    binding.bind_input(f"past_key_values.{name}", *where)
    binding.bind_output(f"present.{name}", *where)


def _step_up(need: int, smallest: int, largest: int | None) -> int:
    """Return the first of smallest, 2·smallest, 4·smallest, …, `largest` that holds `need`."""
    step = smallest
    while step < need:
        step *= 2
    return step if largest is None else min(step, largest)
