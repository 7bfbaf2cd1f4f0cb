"""Reads weights that are spread over several files by an index, as Hugging Face writes them.

`X.index.json` holds a `weight_map`: the file, beside it, that each tensor lies in.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from export.checkpoint_files import read_object
from export.errors import CheckpointError
from export.tensor_file import TensorFile, TensorInfo


class ShardedFile:
    """The tensors of all shards by name."""

    def __init__(self, index: Path, open_shard: Callable[[Path], TensorFile]) -> None:
        """Open every shard that `index` names.

        Raises:
            CheckpointError: with every fault of the index and of the shards.
        """
        listed = _read_weight_map(index)
        faults: list[str] = []
        self._shards: dict[str, TensorFile] = {}  # by tensor
        self.tensors: dict[str, TensorInfo] = {}
        for shard in sorted(set(listed.values())):
            try:
                file = open_shard(index.parent / shard)
            except CheckpointError as error:
                faults += error.faults
                continue
            twice = [name for name in file.tensors if name in self._shards]
            faults += [f"{name} lies in {shard} and in another shard" for name in twice]
            lacking = [n for n, s in listed.items() if s == shard and n not in file.tensors]
            faults += [f"{n} is not in {shard}, though {index.name} says so" for n in lacking]
            self._shards |= dict.fromkeys(file.tensors, file)
            self.tensors |= file.tensors
        if faults:
            raise CheckpointError(index.parent, faults)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype.

        Raises:
            TensorFileError: if it is damaged.
            OSError: if the shard cannot be read.
        """
        return self._shards[name].read(name)


def _read_weight_map(index: Path) -> Mapping[str, str]:
    listed = read_object(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(s, str) for s in listed.values()):
        raise CheckpointError(index.parent, [f"{index.name} has no weight_map of files"])
    faults = [
        f"{index.name} names the shard {shard!r}, which is no plain file name"
        for shard in sorted(set(listed.values()))
        if not _is_plain(shard)
    ]
    if faults or not listed:
        raise CheckpointError(index.parent, faults or [f"{index.name} lists no weights"])
    return listed


def _is_plain(name: str) -> bool:
    """Tell whether a name stays in its folder, on every system: no separator, drive or stream."""
    return name not in ("", ".", "..") and not set(name) & {"/", "\\", ":", "\0"}
