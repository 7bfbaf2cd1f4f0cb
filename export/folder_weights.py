"""Reads the weights back out of a model folder, as the graph's own nodes would take them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from export.checkpoint import Array
from export.errors import CheckError
from export.storage import VOCABULARY_WEIGHTS


class FolderWeights:
    """The weights in a model folder's external data, memory-mapped.

    Numbers in blocks come back as the floats that they stand for. How they are laid out is told by
    the operators' attributes and not by `export.storage`, so that a mistake there shows.
    """

    def __init__(self, model_path: Path) -> None:
        """Read the graph.

        Raises:
            CheckError: if it is damaged.
        """
        try:
            graph = onnx.load(model_path, load_external_data=False).graph
        except Exception as error:  # protobuf's DecodeError, which onnx does not translate
            raise CheckError(f"{model_path} is damaged: {error}") from error
        self._folder = model_path.parent
        self._tensors = {t.name: t for t in graph.initializer if t.external_data}
        self._readers = {  # by the name of the blocks: the node that multiplies or gathers them
            name: {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            for node in graph.node
            if node.op_type in ("MatMulNBits", "GatherBlockQuantized")
            for name in node.input
            if name.endswith((".blocks", ".rows"))
        }

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape.

        Raises:
            CheckError: if the graph does not have it, or the data file ends before it does.
        """
        try:
            if name in self._tensors:
                return self._map(name).astype(np.float32, copy=False)
            return self._read_blocks(name)
        except (KeyError, OSError, ValueError) as error:
            raise CheckError(f"{self._folder} is damaged: {name} cannot be read") from error

    def _read_blocks(self, name: str) -> Array:
        """Return (number - zero point) · scale, with 2^(bits-1) as the zero point."""
        part = self._find_blocks(name)
        bits, size = self._readers[part]["bits"], self._readers[part]["block_size"]
        scales = self._map(f"{name}.scales")  # [N, K/size]
        stored = self._map(part)[..., None]
        shifts = np.arange(0, 8, bits, dtype=np.uint8)  # of a byte's numbers, the first lies lowest
        numbers = (stored >> shifts & np.uint8(2**bits - 1)).reshape(*scales.shape, size)
        floats = numbers.astype(np.float32)  # [N, K/size, size]
        floats -= 2 ** (bits - 1)
        floats *= scales[..., None]
        return self._shape(name, floats.reshape(len(scales), -1))

    def _find_blocks(self, name: str) -> str:
        part = f"{name}.blocks"
        return part if part in self._tensors else f"{name}.rows"

    def _shape(self, name: str, rows: Array) -> Array:
        """Cut the padding off rows [N, K'] and give them the published shape."""
        if name in VOCABULARY_WEIGHTS:
            return rows[:, : self._tensors["wpe.weight"].dims[1]]
        return rows[:, : self._readers[f"{name}.blocks"]["K"]].T

    def _map(self, name: str) -> NDArray[Any]:
        tensor = self._tensors[name]
        place = {entry.key: entry.value for entry in tensor.external_data}
        return np.memmap(
            self._folder / place["location"],
            dtype=onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type),
            mode="r",
            offset=int(place["offset"]),
            shape=tuple(tensor.dims),
        )
