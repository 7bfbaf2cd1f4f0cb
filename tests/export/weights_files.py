"""Writes the weights of a checkpoint into each kind of file that they are published in."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tests.checkpoints import CheckpointDtype, FloatArray, write_safetensors
from tests.export.torch_files import write_state_dict


def write_weights(
    folder: pathlib.Path,
    name: str,
    tensors: Mapping[str, FloatArray],
    *,
    dtype: CheckpointDtype = "float32",
    shards: int = 2,
) -> dict[str, Any]:
    """Write a file of this name, such as pytorch_model.bin; of an index, its shards too.

    They have their tensors in turn, and are named as transformers names them. Returns the index.
    """
    write = write_safetensors if ".safetensors" in name else write_state_dict
    if not name.endswith(".index.json"):
        write(folder / name, tensors, dtype=dtype)
        return {}
    stem, suffix, *_ = name.split(".")
    weight_map: dict[str, str] = {}
    for number in range(shards):
        shard = f"{stem}-{number + 1:05}-of-{shards:05}.{suffix}"
        part = dict(list(tensors.items())[number::shards])
        write(folder / shard, part, dtype=dtype)
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / name).write_text(json.dumps(index), encoding="utf-8")
    return index
