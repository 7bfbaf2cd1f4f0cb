"""Collects a graph's nodes and constants, each under a name of its own."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from export.storage import Storage

MICROSOFT: Final = "com.microsoft"  # MatMulNBits, GatherBlockQuantized, GroupQueryAttention


class Nodes:
    """Collects nodes. Every node and every constant is named after its output, which is unique."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._outputs: set[str] = set()

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        self.add_split(op, inputs, [output], **attributes)
        return output

    def add_split(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Add a node with several outputs."""
        taken = self._outputs.intersection(outputs)
        if taken:
            raise ValueError(f"two nodes write {sorted(taken)}")
        self._outputs.update(outputs)
        node = helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)
        self.nodes.append(node)

    def branch(self) -> "Nodes":
        """Return a collector for a subgraph: it may use all names, and adds no name twice."""
        other = Nodes(self.storage)
        other.constants, other._outputs = self.constants, self._outputs
        return other

    def constant(self, name: str, value: Sequence[Any] | int | float) -> str:
        """Return the name of a constant, int64 or a float; same name, same value."""
        array: NDArray[Any] = np.array(value)
        array = array.astype(self.storage.activations if array.dtype.kind == "f" else np.int64)
        tensor = numpy_helper.from_array(array, name)
        if self.constants.setdefault(name, tensor) != tensor:
            raise ValueError(f"constant {name} has two values")
        return name
