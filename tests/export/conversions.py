"""Owns what the tests of the conversion share: the smallest shape, the stages, looks at folders."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final

from tests.checkpoints import CheckpointShape

SMALLEST_SHAPE: Final = CheckpointShape(n_layer=1, n_head=1, n_embd=4, n_positions=3, vocab_size=5)

READING: Final = "reading the checkpoint"
WRITING: Final = "writing the graph and the weights"
CHECKING: Final = "checking the graph against the NumPy reference"
STAGES: Final = (READING, WRITING, CHECKING)

MODEL_FILES: Final = {
    *("config.json", "export.json", "model.onnx", "model.onnx.data", "tokenizer.json")
}


def lay(folder: pathlib.Path, tree: Mapping[str, bytes | pathlib.Path | None]) -> None:
    """Put folders (None), files and links (the path they lead to) into a folder, by their names."""
    for name, content in tree.items():
        if content is None:
            (folder / name).mkdir(parents=True)
        elif isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).symlink_to(content)


def list_tree(folder: pathlib.Path) -> dict[str, bytes | None]:
    """Return every path below `folder`, with each file's content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Return what export.json says."""
    manifest: dict[str, Any] = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    return manifest
