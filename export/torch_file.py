"""Reads one `pytorch_model.bin` without torch and without running code from the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from export.tensor_file import DTYPES, TensorFileError, TensorInfo, read_flat, refuse_larger
from export.torch_archive import RECORD_MAGIC, TorchArchive
from export.torch_pickle import StridedTensor
from export.torch_stream import PICKLE_MAGIC, TorchStream


class _Format(Protocol):
    """What the two formats of torch have in common."""

    views: Mapping[str, StridedTensor]

    def find_storage(self, key: str) -> tuple[int, int] | None: ...

    def check_storage(self, key: str) -> None: ...


class TorchFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the table of tensors of `file`, which is `path` opened.

        Raises:
            TensorFileError: if the file is no state dict in a format of torch.
            OSError: if it cannot be read.
        """
        self._file = file
        self._content = _open_format(file)
        self.tensors: dict[str, TensorInfo] = {}
        for name, view in self._content.views.items():
            self._check_bounds(name, view)
            self.tensors[name] = TensorInfo(view.storage.dtype, view.shape)
            refuse_larger(name, self.tensors[name], path.stat().st_size)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in C order.

        Raises:
            TensorFileError: if its storage is damaged.
            OSError: if the file cannot be read.
        """
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
        place = self._content.find_storage(view.storage.key)
        if place is None:
            raise TensorFileError(f"the storage of {name} is missing")
        return place

    def _check_bounds(self, name: str, view: StridedTensor) -> None:
        """Refuse a tensor that reaches beyond its storage, or a storage that is not there whole."""
        storage = view.storage
        _, size = self._find_storage(name, view)
        if size < (storage.start + storage.elements) * DTYPES[storage.dtype].itemsize:
            raise TensorFileError(f"the storage of {name} is too short for its elements")
        if len(view.shape) != len(view.strides):
            raise TensorFileError(f"{name} has not as many strides as sizes")
        if view.offset + view.span > storage.elements:
            raise TensorFileError(f"{name} reaches beyond its storage")


def _open_format(file: BinaryIO) -> _Format:
    magic = file.read(len(RECORD_MAGIC))
    file.seek(0)
    if magic == RECORD_MAGIC:
        return TorchArchive(file)
    if magic.startswith(PICKLE_MAGIC):
        return TorchStream(file)
    raise TensorFileError("it is neither a zip archive nor a pickle, as torch writes them")
