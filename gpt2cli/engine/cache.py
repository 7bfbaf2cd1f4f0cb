"""The memory of the KV cache: on the host it grows as needed, on a device it is fixed.

Both hold, for each layer, keys and values [R, H, M, D] of the dtype that the graph takes: R rows
(slots), M positions per row. Unused positions of a row are finite, as the graph requires. A cache
whose `version` has changed lies at other addresses: what was bound to the old ones is invalid.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import MAKING_ROOM, failures_told
from gpt2cli.engine.session import open_small
from gpt2cli.machine import find_free_bytes
from gpt2cli.model_folder import ModelShape

_SMALLEST_CAPACITY: Final = 64
_FLOAT32: Final = np.dtype(np.float32)
_ONNX_NAMES: Final = {_FLOAT32: "float", np.dtype(np.float16): "float16"}

# 124M, fp32, 1,024 tokens after prompts of 8 words on one thread of two shared cores: 5.2 CPU-s at
# batch size 8, 3.9 at 16, 3.6 at 32. With prompts of 8 to 400 words 32 gains 4 %, for 600 MB.
_FEWEST_SLOTS: Final = 16
_SLOTS_PER_CORE: Final = 8
_MOST_SLOTS: Final = 32
_MEMORY_SHARE: Final = 0.25  # of what is free, for a cache in which every slot is full
_SLOTS_PER_SAVED: Final = 8  # what is saved beside the slots takes an eighth of their memory


def choose_slots(
    shape: ModelShape,
    device: Device,
    cores: int,
    *,
    find_free: Callable[[], int] = find_free_bytes,
) -> int:
    """Return a batch size: on the CPU one for this many cores that the free memory can hold.

    How much memory another device has is not known here: what does not fit there is halved.
    """
    if device.kind != "cpu":
        return _MOST_SLOTS
    slot_bytes = 2 * shape.n_layer * shape.n_embd * shape.n_positions * _FLOAT32.itemsize
    fitting = int(find_free() * _MEMORY_SHARE) // slot_bytes
    return max(1, min(max(_FEWEST_SLOTS, _SLOTS_PER_CORE * cores), _MOST_SLOTS, fitting))


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """The first tokens of a row, beside the rows."""

    length: int
    size: int  # in bytes
    place: Any  # on the host arrays [H, length, D], on a device the number of a spare row


class HostCache:
    """KV cache in NumPy arrays, as large as needed: rows and capacity double, or halve."""

    def __init__(
        self, shape: ModelShape, *, slots: int = 1, element: np.dtype[Any] = _FLOAT32
    ) -> None:
        """`slots`: how many rows there are as a rule, by which what is saved is bounded."""
        self._shape = shape
        self._room = max(1, slots // _SLOTS_PER_SAVED) * shape.n_positions  # tokens to be saved
        self._element = element
        self.rows = 0
        self.capacity = 0
        self.version = 0
        self._arrays = [np.zeros(self._axes(0, 0), element) for _ in _cache_names(shape)]
        self._is_whole = True  # whether all arrays have `rows` and `capacity`

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens; what is stored stays.

        A cache four times too long is shrunk, since masked positions cost time. Unused rows are
        freed whenever a new cache is made anyway. If Ctrl-C or a full memory cuts this short, what
        was stored stays, and the next call completes it.
        """
        assert length <= self._shape.n_positions
        capacity = min(max(_SMALLEST_CAPACITY, _double_up(length)), self._shape.n_positions)
        if self.capacity >= capacity > self.capacity // 4:
            capacity = self.capacity
        if self._is_whole and rows <= self.rows and capacity == self.capacity:
            return
        self._is_whole = False
        self.version += 1
        self.rows, self.capacity = _double_up(rows), capacity
        for index, old in enumerate(self._arrays):  # one at a time: the peak is one layer's copy
            new = np.zeros(self._axes(self.rows, capacity), self._element)  # [R, H, M, D]
            kept = min(capacity, old.shape[2])
            new[: len(old), :, :kept] = old[: self.rows, :, :kept]
            self._arrays[index] = new
        self._is_whole = True

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of a row to another row."""
        for array in self._arrays:
            array[target, :, :length] = array[source, :, :length]

    def save_row(self, row: int, length: int) -> Saved | None:
        """Copy the first tokens of a row to memory of their own; None if there is no room."""
        if length > self._room:
            return None
        copies = [array[row, :, :length].copy() for array in self._arrays]
        self._room -= length
        return Saved(length, sum(copy.nbytes for copy in copies), copies)

    def load_row(self, saved: Saved, row: int, length: int) -> None:
        """Copy the first tokens of what was saved to a row."""
        for array, copy in zip(self._arrays, saved.place, strict=True):
            array[row, :, :length] = copy[:, :length]

    def drop(self, saved: Saved) -> None:
        """Make room again."""
        self._room += saved.length

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""
        shape = self._axes(rows, self.capacity)
        for name, address in self._addresses(first_row):
            _bind_both(binding, name, ("cpu", 0, self._element.type, shape, address))

    def bind_steps(self, binding: Any, row: int, steps: int) -> None:
        """Bind a row as what each of the steps after the first writes, too."""
        where = ("cpu", 0, self._element.type, self._axes(1, self.capacity))
        for name, address in self._addresses(row):
            for step in range(1, steps):
                binding.bind_output(f"present.{name}.{step}", *where, address)

    def _addresses(self, row: int) -> Iterator[tuple[str, int]]:
        for name, array in zip(_cache_names(self._shape), self._arrays, strict=True):
            yield name, array.ctypes.data + row * array.strides[0]

    def _axes(self, rows: int, capacity: int) -> tuple[int, int, int, int]:
        return rows, self._shape.n_head, capacity, self._shape.head_dim


class DeviceCache:
    """KV cache in a device's memory; rows are copied there by a graph, not through the host."""

    version = 0  # nothing ever moves

    def __init__(
        self, shape: ModelShape, device: Device, *, rows: int, element: np.dtype[Any] = _FLOAT32
    ) -> None:
        """Take the memory for all rows at once, and for spare ones that are not counted."""
        self.rows = rows
        self._spare = [rows + number for number in range(rows // _SLOTS_PER_SAVED)]
        self.capacity = shape.n_positions
        self._names = _cache_names(shape)
        self._device = device
        self._element = element
        self._row_axes = (1, shape.n_head, self.capacity, shape.head_dim)
        self._row_bytes = int(np.prod(self._row_axes)) * element.itemsize
        self._copier: Any = None
        with failures_told(device, MAKING_ROOM):
            self._take_memory()

    def reserve(self, rows: int, length: int) -> None:
        """Check that there is room: the memory was fixed when the engine was made."""
        assert rows <= self.rows and length <= self.capacity

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy a whole row: its used positions are in one piece per head only."""
        with failures_told(self._device, ", copying a row of the cache"):
            if self._copier is None:
                self._copier = self._open_copier()
            binding = self._copier.io_binding()
            for index in range(len(self._names)):
                binding.bind_input(f"source_{index}", *self._locate(index, source, 1))
                binding.bind_output(f"target_{index}", *self._locate(index, target, 1))
            self._copier.run_with_iobinding(binding)

    def save_row(self, row: int, length: int) -> Saved | None:
        """Copy a row to a spare one; None if there is none."""
        if not self._spare:
            return None
        self.copy_row(row, self._spare[-1], length)
        return Saved(length, len(self._names) * self._row_bytes, self._spare.pop())

    def load_row(self, saved: Saved, row: int, length: int) -> None:
        """Copy what was saved to a row."""
        self.copy_row(saved.place, row, length)

    def drop(self, saved: Saved) -> None:
        """Make room again."""
        self._spare.append(saved.place)

    def bind(self, binding: Any, first_row: int, rows: int) -> None:
        """Bind consecutive rows as past and as present, in place."""
        for index, name in enumerate(self._names):
            _bind_both(binding, name, self._locate(index, first_row, rows))

    def _take_memory(self) -> None:
        """Let a session allocate all values, since its arena takes no more than needed.

        That of `ortvalue_from_shape_and_type` doubles (onnxruntime 1.31.1, GetCudaAllocator).
        """
        kind = _ONNX_NAMES[self._element]
        self._maker = open_small(  # kept as long as the values, which lie in its arena
            f"zeros (int64[4] axes) => ({kind}[R,H,M,D] values) "
            f"{{ values = ConstantOfShape <value = {kind}[1] {{0}}> (axes) }}",
            self._device,
        )
        axes = np.array((self.rows + len(self._spare), *self._row_axes[1:]), np.int64)
        self._values: list[Any] = []
        for _ in self._names:
            binding = self._maker.io_binding()
            binding.bind_cpu_input("axes", axes)
            binding.bind_output("values", self._device.kind, self._device.index)
            self._maker.run_with_iobinding(binding)
            self._values += binding.get_outputs()

    def _open_copier(self) -> Any:
        kind = f"{_ONNX_NAMES[self._element]}[{','.join(map(str, self._row_axes))}]"
        numbers = range(len(self._names))
        sources = ", ".join(f"{kind} source_{index}" for index in numbers)
        targets = ", ".join(f"{kind} target_{index}" for index in numbers)
        nodes = " ".join(f"target_{index} = Identity(source_{index})" for index in numbers)
        return open_small(f"copy ({sources}) => ({targets}) {{ {nodes} }}", self._device)

    def _locate(self, index: int, row: int, rows: int) -> tuple[Any, ...]:
        """Return what `bind_input` takes of rows of one value: device, dtype, shape, address."""
        address = int(self._values[index].data_ptr()) + row * self._row_bytes
        shape = (rows, *self._row_axes[1:])
        return self._device.kind, self._device.index, self._element.type, shape, address


def _cache_names(shape: ModelShape) -> Sequence[str]:
    """Return the graph's names of keys and values without `past_key_values.` or `present.`."""
    return [f"{layer}.{part}" for layer in range(shape.n_layer) for part in ("key", "value")]


def _bind_both(binding: Any, name: str, where: tuple[Any, ...]) -> None:
    binding.bind_input(f"past_key_values.{name}", *where)
    binding.bind_output(f"present.{name}", *where)


def _double_up(need: int) -> int:
    """Return the first of 1, 2, 4, … that holds `need`."""
    return 1 << max(need - 1, 0).bit_length()
