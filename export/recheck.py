"""Checks a model folder again where another onnxruntime or provider is to run it.

The weights come out of the folder itself; that they are the checkpoint's was checked when it was
written.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from export.check import check_short
from export.checkpoint import Array
from export.config import read_config
from export.convert import MANIFEST_FILE, MODEL_FILE
from export.errors import CheckError


class FolderWeights:
    """The weights in a model folder's external data, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        try:
            graph = onnx.load(folder / MODEL_FILE, load_external_data=False).graph
        except Exception as error:  # protobuf's DecodeError, which onnx does not translate
            raise CheckError(f"{folder / MODEL_FILE} is damaged: {error}") from error
        self._folder = folder
        self._tensors = {t.name: t for t in graph.initializer if t.external_data}

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape.

        Raises:
            CheckError: if the graph does not have it, or the data file ends before it does.
        """
        try:
            tensor = self._tensors[name]
            place = {entry.key: entry.value for entry in tensor.external_data}
            return np.memmap(
                self._folder / place["location"],
                dtype="<f4",
                mode="r",
                offset=int(place["offset"]),
                shape=tuple(tensor.dims),
            )
        except (KeyError, OSError, ValueError) as error:
            raise CheckError(f"{self._folder} is damaged: {name} cannot be read") from error


def recheck(folder: Path, provider: str) -> None:
    """Run the short check on `provider` and add the pair to the folder's record.

    A folder that cannot be written keeps its record; it is then checked at every start.

    Raises:
        CheckError: if the graph is wrong there.
    """
    check_short(folder / MODEL_FILE, read_config(folder), FolderWeights(folder), provider=provider)
    manifest: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_bytes())
    manifest["checked"].append({"onnxruntime": onnxruntime.__version__, "provider": provider})
    temporary = folder / f".{MANIFEST_FILE}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / MANIFEST_FILE)
    except OSError:
        temporary.unlink(missing_ok=True)
