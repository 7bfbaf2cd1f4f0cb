"""Describes a model folder for people: its configuration, parameters, and the graph's table."""

import math
from pathlib import Path
from typing import Any

import onnx

from export.checkpoint import expected_weights
from export.checkpoint_files import read_object
from export.config import read_config
from export.graph_files import MODEL_FILE


def describe(folder: Path) -> dict[str, Any]:
    """Return config, number of parameters, and inputs and outputs as [name, dtype, axes].

    The parameters are those of the checkpoint, in whatever way they are stored.

    Raises:
        OSError: if the folder's files cannot be read.
        CheckpointError: if its configuration is damaged.
    """
    graph = onnx.load(folder / MODEL_FILE, load_external_data=False).graph
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
    axes = [axis.dim_param or axis.dim_value for axis in tensor.shape.dim]
    return [value.name, dtype, axes]
