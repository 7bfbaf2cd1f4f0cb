"""Reads a model folder back: its weights, as the graph's own nodes would take them, and its table.

It takes the layout of blocks from the operators' attributes and not from `export.storage`, so that
a mistake there shows.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from export.config import read_config, read_object
from export.errors import CheckError
from export.manifest import find_graph
from export.storage import VOCABULARY_WEIGHTS
from export.weights import Array, expected_weights


class FolderWeights:
    """The weights in a model folder's external data, memory-mapped, as floats."""

    def __init__(self, model_path: Path) -> None:
        """Read the graph, or raise CheckError."""
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
        """Return one weight as float32, in its published shape, or raise CheckError."""
        try:
            if name in self._tensors:
                return self._map(name).astype(np.float32, copy=False)
            return self._read_blocks(name)
        except (KeyError, OSError, ValueError) as error:
            raise CheckError(f"{self._folder} is damaged: {name} cannot be read") from error

    def _read_blocks(self, name: str) -> Array:
        """Return (number - zero point) · scale, with 2^(bits-1) as the zero point."""
        part = f"{name}.blocks" if f"{name}.blocks" in self._tensors else f"{name}.rows"
        bits, size = self._readers[part]["bits"], self._readers[part]["block_size"]
        scales = self._map(f"{name}.scales")  # [N, K/size]
        stored = self._map(part)[..., None]
        shifts = np.arange(0, 8, bits, dtype=np.uint8)  # of a byte's numbers, the first lies lowest
        numbers = (stored >> shifts & np.uint8(2**bits - 1)).reshape(*scales.shape, size)
        floats = numbers.astype(np.float32)  # [N, K/size, size]
        floats -= 2 ** (bits - 1)
        floats *= scales[..., None]
        rows = floats.reshape(len(scales), -1)  # [N, K'], padded
        if name in VOCABULARY_WEIGHTS:
            return rows[:, : self._tensors["wpe.weight"].dims[1]]
        return rows[:, : self._readers[part]["K"]].T

    def _map(self, name: str) -> NDArray[Any]:
        tensor = self._tensors[name]
        external = {entry.key: entry.value for entry in tensor.external_data}
        return np.memmap(
            self._folder / external["location"],
            dtype=onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type),
            mode="r",
            offset=int(external["offset"]),
            shape=tuple(tensor.dims),
        )


def describe(folder: Path) -> dict[str, Any]:
    """Return config, number of parameters, and inputs and outputs as [name, dtype, axes].

    The parameters are those of the checkpoint, in whatever way they are stored.

    Raises:
        OSError: if the folder's files cannot be read.
        CheckpointError: if its configuration is damaged.
    """
    graph = onnx.load(find_graph(folder), load_external_data=False).graph
    shapes = expected_weights(read_config(folder)).values()
    return {
        "config": dict(read_object(folder / "config.json")),
        "parameters": sum(math.prod(shape) for shape in shapes),
        "inputs": [_describe_value(value) for value in graph.input],
        "outputs": [_describe_value(value) for value in graph.output],
    }


def _describe_value(value: onnx.ValueInfoProto) -> list[Any]:
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return [value.name, dtype, [a.dim_param or a.dim_value for a in tensor.shape.dim]]
