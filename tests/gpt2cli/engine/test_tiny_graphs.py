"""The graphs that stand as bytes are those that onnx makes of these lines."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from gpt2cli.engine import Device
from gpt2cli.engine.cache import allocate_zeros
from gpt2cli.engine.tiny_graphs import PRODUCT, ZEROS


def make(
    node: Any, source: tuple[str, int, list[Any]], target: tuple[str, int, list[Any]]
) -> bytes:
    """Return a graph of one node."""
    inputs, outputs = ([helper.make_tensor_value_info(*value)] for value in (source, target))
    graph = helper.make_graph([node], target[0], inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    serialised: bytes = model.SerializeToString()
    return serialised


def test_the_product() -> None:
    """X times X, both 2 x 2."""
    node = helper.make_node("MatMul", ["x", "x"], ["product"])
    source = ("x", TensorProto.FLOAT, [2, 2])
    assert make(node, source, ("product", TensorProto.FLOAT, [2, 2])) == PRODUCT


@pytest.mark.parametrize("dtype", list(ZEROS))
def test_the_zeros(dtype: np.dtype[Any]) -> None:
    """A shape in, zeros of it out."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    zero = helper.make_tensor("v", kind, [1], [0])
    node = helper.make_node("ConstantOfShape", ["axes"], ["zeros"], value=zero)
    source = ("axes", TensorProto.INT64, [4])
    assert make(node, source, ("zeros", kind, ["R", "H", "M", "D"])) == ZEROS[dtype]


@pytest.mark.parametrize("dtype", list(ZEROS))
def test_zeros_are_places_apart(dtype: np.dtype[Any]) -> None:
    """As many as asked for, each with memory of its own that stays."""
    values = allocate_zeros((2, 3, 4, 5), dtype, Device("cpu"), count=3).values
    arrays = [value.numpy() for value in values]
    assert all(a.shape == (2, 3, 4, 5) and a.dtype == dtype and not a.any() for a in arrays)
    assert len({value.data_ptr() for value in values}) == 3
