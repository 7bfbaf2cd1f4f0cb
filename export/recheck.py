"""Checks a model folder again where another onnxruntime or provider is to run it.

The weights come out of the folder itself; that they are the checkpoint's was checked when it was
written.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnxruntime

from export.check import check_short
from export.config import read_config
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.graph_files import MODEL_FILE, find_graph_for
from export.manifest import MANIFEST_FILE
from export.precision import Precision
from export.small_files import ReadError, read_object
from export.whole import replacing


def recheck(folder: Path, provider: str) -> None:
    """Run the short check on `provider` and add the pair to the folder's record.

    A folder that cannot be written keeps its record; it is then checked at every start.

    Raises:
        CheckError: if the graph is wrong there.
    """
    try:
        manifest: dict[str, Any] = read_object(folder / MANIFEST_FILE)
    except ReadError as error:
        raise CheckError(f"{folder / MANIFEST_FILE} {error.reason}; export again") from error
    check_short(
        [find_graph_for(folder, provider)],
        read_config(folder),
        FolderWeights(folder / MODEL_FILE),
        precision=Precision(manifest["precision"]),
        provider=provider,
    )
    manifest["checked"].append({"onnxruntime": onnxruntime.__version__, "provider": provider})
    with suppress(OSError), replacing(folder / MANIFEST_FILE) as file:
        file.write((json.dumps(manifest, indent=1) + "\n").encode())
