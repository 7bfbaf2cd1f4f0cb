"""Reads the format that torch wrote before 1.6 (`_legacy_save` in `torch/serialization.py`).

Five pickles, one after the other: a magic number, the version of the format, facts about the
machine, the table of tensors, the list of storages. Then each storage of that list: the number of
its elements, in 8 bytes, and the elements. There are no checksums.
"""

import io
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from export.tensor_file import DTYPES, LARGEST_TABLE, TensorFileError
from export.torch_pickle import Storage, StridedTensor, find_tensors, run_pickle

PICKLE_MAGIC: Final = b"\x80"
_MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C
_VERSION: Final = 1001
_COUNT_SIZE: Final = 8


class TorchStream:
    """The table of tensors of one file, and where its storages lie."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the table.

        Raises:
            TensorFileError: if the file is no whole state dict in this format.
            OSError: if it cannot be read.
        """
        pickles = io.BytesIO(file.read(LARGEST_TABLE))
        _check_start(pickles)
        table, storages = run_pickle(pickles)
        self.views: Mapping[str, StridedTensor] = find_tensors(table)
        keys = _check_keys(run_pickle(pickles)[0], storages)
        self._places = _locate(file, pickles.tell(), [storages[key] for key in keys])

    def find_storage(self, key: str) -> tuple[int, int] | None:
        """Return where a storage begins and how many bytes it has; None if it is not there."""
        return self._places.get(key)

    def check_storage(self, key: str) -> None:
        """Do nothing: there is no checksum."""


def _check_start(pickles: BinaryIO) -> None:
    if run_pickle(pickles)[0] != _MAGIC_NUMBER:
        raise TensorFileError("it is a pickle, but none that torch wrote")
    version = run_pickle(pickles)[0]
    if version != _VERSION:
        raise TensorFileError("it is in a version of torch's format that is not known")
    machine = run_pickle(pickles)[0]
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise TensorFileError("it was written on a big-endian machine")


def _check_keys(keys: object, storages: Mapping[str, Storage]) -> Sequence[str]:
    """Return the list of storages, each of which the table must have told about, and once."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise TensorFileError("it has no list of its storages")
    if not storages.keys() >= set(keys):
        raise TensorFileError("it lists a storage of which its table says nothing")
    if len(set(keys)) < len(keys):
        raise TensorFileError("it lists a storage twice")
    return keys


def _locate(file: BinaryIO, start: int, storages: Sequence[Storage]) -> dict[str, tuple[int, int]]:
    """Return where the elements of each storage begin and how many bytes they are."""
    places: dict[str, tuple[int, int]] = {}
    end = file.seek(0, io.SEEK_END)
    for storage in storages:
        file.seek(start)
        count = int.from_bytes(file.read(_COUNT_SIZE), "little")
        start += _COUNT_SIZE
        size = storage.elements * DTYPES[storage.dtype].itemsize
        if start + size > end:
            raise TensorFileError("it ends before its last storage does")
        if count != storage.elements:
            raise TensorFileError("a storage of it has another length than its table says")
        places[storage.key] = (start, size)
        start += size
    return places
