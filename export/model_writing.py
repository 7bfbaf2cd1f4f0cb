"""Writes the graphs of a model folder, and the weights that all of them read from one file."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import onnx

from export.attention import AttentionForm, can_be_grouped
from export.config import GPT2Config
from export.graph import add_weight, build_graph
from export.manifest import CPU_MODEL_FILE, MODEL_FILE, OWN_SUFFIX, VERIFYING_MODEL_FILE
from export.portable_files import portable_data, portable_graph
from export.storage import FLOAT16, Precision, Storage, encode
from export.weights import Weights, expected_weights

DATA_FILE: Final = "model.onnx.data"

# A page: external data is memory-mapped.
_ALIGNMENT: Final = 4096


def write_model(
    folder: Path,
    config: GPT2Config,
    weights: Weights,
    storage: Storage,
    *,
    portable_as: Precision | None = None,
) -> Sequence[str]:
    """Write the graph files and stream the weights beside them, one in memory at a time.

    With `portable_as`, the storage's precision, also the graph for other programs.
    Returns a sentence for every weight that the precision cannot hold.
    """
    models, data = _build_graphs(config, storage, portable_as)
    (folder / data).parent.mkdir(exist_ok=True)
    faults = []
    with (folder / data).open("wb") as file:
        for name in expected_weights(config):
            for part in encode(storage, name, weights.read(name)):
                if part.array.dtype == FLOAT16 and not np.isfinite(part.array).all():
                    faults.append(f"{name} holds numbers that fp16 cannot (beyond 65504)")
                file.write(b"\0" * (-file.tell() % _ALIGNMENT))
                for path, model in models.items():
                    add_weight(model, part, str(data.relative_to(path.parent)), file.tell())
                file.write(np.ascontiguousarray(part.array).data)
    for path, model in models.items():
        onnx.save_model(model, folder / path)
    return faults


def _build_graphs(
    config: GPT2Config, storage: Storage, portable_as: Precision | None
) -> tuple[dict[PurePosixPath, onnx.ModelProto], PurePosixPath]:
    """Return the graphs by their paths in the folder, and where their weights go there."""
    forms = {MODEL_FILE: AttentionForm.MASKED}
    if can_be_grouped(config, storage):
        forms[CPU_MODEL_FILE] = AttentionForm.GROUPED
        forms[VERIFYING_MODEL_FILE] = AttentionForm.VERIFYING
    suffix = OWN_SUFFIX if portable_as else ""
    models = {
        PurePosixPath(f"{name}{suffix}"): build_graph(config, storage, form)
        for name, form in forms.items()
    }
    if portable_as is None:
        return models, PurePosixPath(DATA_FILE)
    models[portable_graph(portable_as)] = build_graph(config, storage, AttentionForm.PORTABLE)
    return models, portable_data(portable_as)
