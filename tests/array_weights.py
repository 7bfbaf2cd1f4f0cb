"""Weights in memory, for what reads a checkpoint's by name."""

from collections.abc import Mapping

from export.weights import Array


class ArrayWeights:
    """Weights that are already in memory, by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def read(self, name: str) -> Array:
        """Return one weight."""
        return self._arrays[name]
