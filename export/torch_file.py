"""Reads one `pytorch_model.bin` without torch and without running code from the file.

Since 1.6 torch writes a zip archive (`export.torch_archive`), before it wrote a stream of pickles
(`_legacy_save` in `torch/serialization.py`).
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from export.safetensors_file import (
    DTYPES,
    LARGEST_TABLE,
    TensorFileError,
    TensorInfo,
    read_flat,
    refuse_larger,
)
from export.torch_archive import RECORD_MAGIC, TorchArchive
from export.torch_pickle import StridedTensor, TorchStorage, find_tensors, run_pickle

_PICKLE_MAGIC: Final = b"\x80"
_MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C
_VERSION: Final = 1001
_COUNT_SIZE: Final = 8


class TorchFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the table of tensors of `file`, which is `path` opened."""
        self._file = file
        self._content = _open_format(file)
        self.tensors: dict[str, TensorInfo] = {}
        for name, view in self._content.views.items():
            self._check_bounds(name, view)
            self.tensors[name] = TensorInfo(view.storage.dtype, view.shape)
            refuse_larger(name, self.tensors[name], path.stat().st_size)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in C order."""
        view = self._content.views[name]
        dtype = view.storage.dtype
        self._content.check_storage(view.storage.key)
        start, _ = self._find_storage(name, view)
        offset = (view.storage.start + view.offset) * DTYPES[dtype].itemsize
        flat = read_flat(self._file, start + offset, view.span, dtype)
        if view.span == 0:
            return flat.reshape(view.shape)
        strides = [stride * flat.itemsize for stride in view.strides]
        strided = np.lib.stride_tricks.as_strided(flat, view.shape, strides, writeable=False)
        return np.asarray(strided, order="C")

    def _find_storage(self, name: str, view: StridedTensor) -> tuple[int, int]:
        found = self._content.find_storage(view.storage.key)
        if found is None:
            raise TensorFileError(f"the storage of {name} is missing")
        return found

    def _check_bounds(self, name: str, view: StridedTensor) -> None:
        """Refuse a tensor that reaches beyond its storage, or a storage that is not there whole."""
        storage = view.storage
        _, size = self._find_storage(name, view)
        if size < (storage.start + storage.elements) * DTYPES[storage.dtype].itemsize:
            raise TensorFileError(f"the storage of {name} is too short for its elements")
        if len(view.shape) != len(view.strides):
            raise TensorFileError(f"{name} has more or fewer strides than sizes")
        if view.offset + view.span > storage.elements:
            raise TensorFileError(f"{name} reaches beyond its storage")


class _TorchStream:
    """The table of tensors of a file from before 1.6, and where its storages lie.

    Five pickles, one after the other: a magic number, the version of the format, facts about the
    machine, the table of tensors, the list of storages. Then each storage of that list: the number
    of its elements, in 8 bytes, and the elements. There are no checksums.
    """

    def __init__(self, file: BinaryIO) -> None:
        pickles = io.BytesIO(file.read(LARGEST_TABLE))
        _check_start(pickles)
        table, storages = run_pickle(pickles)
        self.views: Mapping[str, StridedTensor] = find_tensors(table)
        keys = _check_keys(run_pickle(pickles)[0], storages)
        self._storages = _locate(file, pickles.tell(), [storages[key] for key in keys])

    def find_storage(self, key: str) -> tuple[int, int] | None:
        """Return where a storage begins and how many bytes it has; None if it is not there."""
        return self._storages.get(key)

    def check_storage(self, key: str) -> None:
        """Do nothing: there is no checksum."""


def _open_format(file: BinaryIO) -> TorchArchive | _TorchStream:
    magic = file.read(len(RECORD_MAGIC))
    file.seek(0)
    if magic == RECORD_MAGIC:
        return TorchArchive(file)
    if magic.startswith(_PICKLE_MAGIC):
        return _TorchStream(file)
    raise TensorFileError("it is neither a zip archive nor a pickle, as torch writes them")


def _check_start(pickles: BinaryIO) -> None:
    if run_pickle(pickles)[0] != _MAGIC_NUMBER:
        raise TensorFileError("it is a pickle, but none that torch wrote")
    version = run_pickle(pickles)[0]
    if version != _VERSION:
        raise TensorFileError("it is in a version of torch's format that is not known")
    machine = run_pickle(pickles)[0]
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise TensorFileError("it was written on a big-endian machine")


def _check_keys(keys: object, storages: Mapping[str, TorchStorage]) -> Sequence[str]:
    """Return the list of storages, each of which the table must have told about, and once."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise TensorFileError("it has no list of its storages")
    if not storages.keys() >= set(keys):
        raise TensorFileError("it lists a storage that its table does not mention")
    if len(set(keys)) < len(keys):
        raise TensorFileError("it lists a storage twice")
    return keys


def _locate(
    file: BinaryIO, start: int, storages: Sequence[TorchStorage]
) -> dict[str, tuple[int, int]]:
    """Return where the elements of each storage begin and how many bytes they are."""
    found: dict[str, tuple[int, int]] = {}
    end = file.seek(0, io.SEEK_END)
    for storage in storages:
        file.seek(start)
        count = int.from_bytes(file.read(_COUNT_SIZE), "little")
        start += _COUNT_SIZE
        size = storage.elements * DTYPES[storage.dtype].itemsize
        if start + size > end:
            raise TensorFileError("it ends before its last storage does")
        if count != storage.elements:
            raise TensorFileError("one of its storages has another length than its table says")
        found[storage.key] = (start, size)
        start += size
    return found
