"""Reads the JSON files of a checkpoint folder, each of which holds one object."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from export.errors import CheckpointError

# A tokenizer.json of 250,000 tokens and as many merges has 20 MB; the other files have a few KB.
_LARGEST_FILE: Final = 64 * 2**20


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        CheckpointError: if the file is missing, cannot be read, or holds anything else.
    """
    try:
        size = path.stat().st_size
        if size > _LARGEST_FILE:
            raise CheckpointError(path.parent, [f"{path.name} has {size} bytes: too many to be it"])
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointError(path.parent, [f"{path.name} is missing"]) from error
    except OSError as error:
        fault = f"{path.name} cannot be read: {error.strerror}"
        raise CheckpointError(path.parent, [fault]) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path.parent, [f"{path.name} is not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise CheckpointError(path.parent, [f"{path.name} holds no JSON object"])
    return value
