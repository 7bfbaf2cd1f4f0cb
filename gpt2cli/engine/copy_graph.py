"""A graph that copies rows of the KV cache from place to place on its own device."""

from collections.abc import Sequence


def build_copy_graph(tensors: int, axes: Sequence[int]) -> bytes:
    """Return a serialised graph `source.{i}` -> `target.{i}`, float32 of shape `axes` each."""
    from onnx import TensorProto, helper  # only needed where a device copies: 0.3 s to import

    names = [(f"source.{i}", f"target.{i}") for i in range(tensors)]
    nodes = [helper.make_node("Identity", [source], [target]) for source, target in names]
    float32 = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(source, float32, axes) for source, _ in names]
    outputs = [helper.make_tensor_value_info(target, float32, axes) for _, target in names]
    graph = helper.make_graph(nodes, "copy_rows", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    serialised: bytes = model.SerializeToString()
    return serialised
