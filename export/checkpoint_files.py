"""Reads the JSON and text files of a checkpoint folder, as other programs wrote them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from export import small_files
from export.errors import CheckpointError


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file holds; of a key that it has twice the last counts.

    Raises:
        CheckpointError: if the file is missing, cannot be read, or holds anything else.
    """
    try:
        return small_files.read_object(path, most_bytes=small_files.LARGE, repeated_keys=True)
    except small_files.ReadError as error:
        raise CheckpointError(path.parent, [f"{path.name} {error}"]) from error


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        CheckpointError: if it is missing, cannot be read, or is not UTF-8.
    """
    try:
        return small_files.read_text(path, most_bytes=small_files.LARGE)
    except small_files.ReadError as error:
        raise CheckpointError(path.parent, [f"{path.name} {error}"]) from error
