"""Holds the weights of a written model folder against the checkpoint's, number by number."""

from pathlib import Path
from typing import Final

import numpy as np

from export.checkpoint import Array, Weights, expected_weights
from export.config import GPT2Config
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.precision import Precision
from export.storage import FLOAT16, STORAGES, VOCABULARY_WEIGHTS, BlockFormat, Storage

_FLOAT16_ROUNDING: Final = np.float32(2.0**-11)  # half a step, as a share of the number
_FLOAT16_SMALLEST: Final = np.float32(2.0**-25)  # half a step of its smallest numbers
_FLOAT32_SMALLEST: Final = np.finfo(np.float32).tiny  # a scale below it has few digits
_SLACK: Final = 1 + 2.0**-14  # up to 128 steps are rounded to 24 bits, each time by 2^-17 steps


def check_weights(
    model_path: Path, config: GPT2Config, weights: Weights, precision: Precision
) -> FolderWeights:
    """Check that each weight is the checkpoint's, rounded as the precision does, and return them.

    Raises:
        CheckError: naming the first weight that is not.
    """
    stored = FolderWeights(model_path)
    for name in expected_weights(config):
        found, expected = stored.read(name), weights.read(name)
        allowed = _allow(name, expected, STORAGES[precision])
        if found.shape != expected.shape or not (np.abs(found - expected) <= allowed).all():
            raise CheckError(f"{name} was written wrong: it is not the checkpoint's in {precision}")
    return stored


def _allow(name: str, weight: Array, storage: Storage) -> Array | float:
    """Return by how much each number may differ; of the weight's shape, or for all."""
    form = storage.format_of(name)
    if form is not None:
        in_rows = name in VOCABULARY_WEIGHTS
        allowed = _allow_blocks(weight if in_rows else weight.T, form)
        return allowed if in_rows else allowed.T
    if storage.dtype_of(name) == FLOAT16:
        return np.abs(weight) * _FLOAT16_ROUNDING + _FLOAT16_SMALLEST
    return 0.0


def _allow_blocks(matrix: Array, form: BlockFormat) -> Array:
    """Return one step of each block, [N, K]: its largest number over 2^(bits-1).

    Rounding costs half a step, and up to a whole one near the end of the range that lacks a number.
    """
    rows, width = matrix.shape
    padded = np.zeros((rows, form.count_blocks(width) * form.size), np.float32)
    np.abs(matrix, out=padded[:, :width])
    largest = padded.reshape(rows, -1, form.size).max(axis=-1)  # [N, K/size]
    steps = largest * np.float32(_SLACK / 2 ** (form.bits - 1)) + _FLOAT32_SMALLEST
    return np.repeat(steps, form.size, axis=-1)[:, :width]
