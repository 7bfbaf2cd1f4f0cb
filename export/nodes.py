"""Collects a graph's nodes and constants, each under a name of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from export.config import GPT2Config
from export.storage import Storage

MICROSOFT: Final = "com.microsoft"  # MatMulNBits, GatherBlockQuantized, GroupQueryAttention


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output of the graph: its name, ONNX element type and axes."""

    name: str
    element_type: int
    axes: tuple[int | str | None, ...]  # None: it differs from call to call


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


def split_heads(g: Nodes, config: GPT2Config, x: str) -> str:
    """Give each head rows of its own: [B, S, E] -> [B, H, S, D]."""
    shape = g.constant("heads.shape", [0, 0, config.n_head, config.head_dim])
    apart = g.add("Reshape", [x, shape], f"{x}.heads")  # [B, S, H, D]
    return g.add("Transpose", [apart], f"{x}.by_head", perm=[0, 2, 1, 3])  # [B, H, S, D]


def merge_heads(g: Nodes, config: GPT2Config, x: str) -> str:
    """Put the heads side by side again: [B, H, S, D] -> [B, S, E]."""
    rows = g.add("Transpose", [x], f"{x}.by_token", perm=[0, 2, 1, 3])  # [B, S, H, D]
    shape = g.constant("hidden.shape", [0, 0, config.n_embd])
    return g.add("Reshape", [rows, shape], f"{x}.merged")  # [B, S, E]
