"""The memory of the KV cache: on the host it grows with the need, on a device it is fixed.

Both hold, for each layer, keys and values [R, H, M, D] of the dtype that the graph takes: R rows
(slots), M places per row. Whatever a row does not use yet is finite, as the graph asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from gpt2cli.engine.copy_graph import build_copy_graph
from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import MAKING_ROOM, failures_told
from gpt2cli.engine.session import open_on
from gpt2cli.engine.tiny_graphs import ZEROS
from gpt2cli.model_folder import ModelShape

_SMALLEST_CAPACITY: Final = 64
_FLOAT32: Final = np.dtype(np.float32)


class KVCache(Protocol):
    """What the engine needs of the cache's memory."""

    version: int  # changes whenever a bound address has become invalid

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens; what is stored stays."""

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` places of a row to another row."""

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""


class HostCache:
    """KV cache in NumPy arrays, as large as the need: rows and capacity double, or halve."""

    def __init__(self, shape: ModelShape, *, element: np.dtype[Any] = _FLOAT32) -> None:
        self._shape = shape
        self._element = element
        self.rows = 0
        self.capacity = 0
        self.version = 0
        self._arrays = [np.zeros(self._axes(0, 0), element) for _ in cache_names(shape)]
        self._is_whole = True  # whether all arrays have `rows` and `capacity`

    def reserve(self, rows: int, length: int) -> None:
        """Make room; a cache four times too long is shrunk, since masked places cost time.

        Rows that nothing needs any more are given back when there is a new cache anyway. Where it
        is cut short, by Ctrl-C or a full memory, what was stored stays, and the next call ends it.

        Raises:
            MemoryError: if the memory is full.
        """
        assert length <= self._shape.n_positions
        capacity = _step_up(length, _SMALLEST_CAPACITY, self._shape.n_positions)
        if self.capacity >= capacity > self.capacity // 4:
            capacity = self.capacity
        if self._is_whole and rows <= self.rows and capacity == self.capacity:
            return
        self._is_whole = False
        self.version += 1
        self.rows, self.capacity = _step_up(rows, 1, None), capacity
        for index, old in enumerate(self._arrays):  # one at a time: the peak is one layer's copy
            new = np.zeros(self._axes(self.rows, capacity), self._element)  # [R, H, M, D]
            kept = min(capacity, old.shape[2])
            new[: len(old), :, :kept] = old[: self.rows, :, :kept]
            self._arrays[index] = new
        self._is_whole = True

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
        with failures_told(self._device, ", copying a row of the cache"):
            self._run_copy(source, target)

    def _run_copy(self, source: int, target: int) -> None:
        if self._copier is None:
            graph = build_copy_graph(len(self._memory.values), self._row_axes, self._element)
            self._copier = open_on(graph, self._device)
        binding = self._copier.io_binding()
        for index in range(len(self._memory.values)):
            for bind, name, row in (
                (binding.bind_input, f"source.{index}", source),
                (binding.bind_output, f"target.{index}", target),
            ):
                address = self._address(index, row)
                kind, number = self._device.kind, self._device.index
                bind(name, kind, number, self._element.type, self._row_axes, address)
        self._copier.run_with_iobinding(binding)

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""
        shape = (rows, *self._row_axes[1:])
        for index, name in enumerate(cache_names(self._shape)):
            address = self._address(index, first_row)
            _bind_both(binding, name, self._device, self._element, shape, address)

    def _take_memory(self, rows: int) -> None:
        self.rows = rows
        axes = (rows, *self._row_axes[1:])  # [R, H, M, D]
        count = len(cache_names(self._shape))
        self._memory = allocate_zeros(axes, self._element, self._device, count=count)

    def _address(self, index: int, row: int) -> int:
        row_bytes = int(np.prod(self._row_axes)) * self._element.itemsize
        return int(self._memory.values[index].data_ptr()) + row * row_bytes


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """OrtValues in a device's memory, and the session whose arena they lie in."""

    values: Sequence[Any]
    session: Any  # kept for as long as they are


def allocate_zeros(
    axes: Sequence[int], element: np.dtype[Any], device: Device, *, count: int
) -> DeviceMemory:
    """Return so many OrtValues of zeros, of that shape, in a device's memory.

    Outputs of a session, since its arena takes what is asked; `ortvalue_from_shape_and_type` has an
    arena of its own that doubles (onnxruntime 1.31.1, GetCudaAllocator).

    Raises:
        DeviceFullError: if it does not fit.
        DeviceError: if the device cannot do it.
    """
    shape = np.array(axes, np.int64)
    with failures_told(device, MAKING_ROOM):
        session = open_on(ZEROS[element], device)
        values: list[Any] = []
        for _ in range(count):
            binding = session.io_binding()
            binding.bind_cpu_input("axes", shape)
            binding.bind_output("zeros", device.kind, device.index)
            session.run_with_iobinding(binding)
            values += binding.get_outputs()
    return DeviceMemory(values, session)


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
