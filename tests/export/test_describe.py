"""What a model folder says of itself to people."""

import json
import math
import pathlib

import pytest

from export.folder_weights import describe
from tests.checkpoints import make_tensors
from tests.model_folders import SMALL_SHAPE, ModelFolders


def test_config_parameters_and_the_graphs_table_are_told(model_folders: ModelFolders) -> None:
    """The parameters are counted as the checkpoint has them, the tied head once."""
    found = describe(model_folders())
    assert found["config"] == json.loads((model_folders() / "config.json").read_bytes())
    tensors = make_tensors(SMALL_SHAPE)
    assert found["parameters"] == sum(math.prod(tensor.shape) for tensor in tensors.values())
    assert found["inputs"][:4] == [
        ["input_ids", "int64", ["B", "S"]],
        ["position_ids", "int64", ["B", "S"]],
        ["logit_positions", "int64", ["B", "K"]],
        ["past_key_values.0.key", "float32", ["B", 2, "M", 16]],
    ]
    assert found["outputs"][:2] == [
        ["logits", "float32", ["B", "K", 289]],
        ["present.0.key", "float32", ["B", 2, "M", 16]],
    ]
    assert (len(found["inputs"]), len(found["outputs"])) == (3 + 4, 1 + 4)


def test_a_folder_without_a_graph_is_an_os_error(tmp_path: pathlib.Path) -> None:
    """The caller says what to do about it."""
    with pytest.raises(OSError, match=r"model\.onnx"):
        describe(tmp_path)
