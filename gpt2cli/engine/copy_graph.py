"""A graph that copies rows of the KV cache from place to place on its own device."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def build_copy_graph(tensors: int, axes: Sequence[int], element: np.dtype[Any]) -> bytes:
    """Return a serialised graph `source.{i}` -> `target.{i}`, each of shape `axes`."""
    from onnx import helper  # only needed where a device copies: 0.3 s to import

    names = [(f"source.{i}", f"target.{i}") for i in range(tensors)]
    nodes = [helper.make_node("Identity", [source], [target]) for source, target in names]
    kind = helper.np_dtype_to_tensor_dtype(element)
    inputs = [helper.make_tensor_value_info(source, kind, axes) for source, _ in names]
    outputs = [helper.make_tensor_value_info(target, kind, axes) for _, target in names]
    graph = helper.make_graph(nodes, "copy_rows", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    serialised: bytes = model.SerializeToString()
    return serialised
