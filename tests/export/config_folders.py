"""Owns the smallest config.json, and what reading it with other fields gives."""

import json
import pathlib
from typing import Final

import pytest

from export.config import GPT2Config, read_config
from export.errors import CheckpointError

FIELDS: Final = {"n_layer": 3, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50}


def write_json(path: pathlib.Path, value: object) -> None:
    """Write a file of JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")


def read_fields(folder: pathlib.Path, **changes: object) -> GPT2Config:
    """Read the smallest config with some fields added or replaced."""
    write_json(folder / "config.json", {**FIELDS, **changes})
    return read_config(folder)


def faults_of(folder: pathlib.Path, **changes: object) -> tuple[str, ...]:
    """Return the faults of the smallest config with some fields added or replaced."""
    with pytest.raises(CheckpointError) as caught:
        read_fields(folder, **changes)
    assert "\n" not in str(caught.value)
    return caught.value.faults
