"""A graph whose operators round nothing that enters them, so that it can be checked closely."""

from pathlib import Path
from typing import Final

import onnx

from export.errors import CheckError

_ACCURACY_LEVEL: Final = "accuracy_level"
_FLOAT32_LEVEL: Final = 1


def read_exact(model_path: Path) -> bytes:
    """Return the graph of a file with its products in float32; its weights stay in their file.

    Raises:
        CheckError: if it is damaged.
    """
    try:
        model = onnx.load(model_path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError, which onnx does not translate
        raise CheckError(f"{model_path} is damaged: {error}") from error
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == _ACCURACY_LEVEL:
                attribute.i = _FLOAT32_LEVEL
    serialised: bytes = model.SerializeToString()
    return serialised
