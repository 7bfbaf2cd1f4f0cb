"""Reads one `pytorch_model.bin` without torch and without running code from the file.

The format is a zip archive of uncompressed records (torch's `torch/serialization.py`, since 1.6):
`NAME/data.pkl` tells the tensors, and `NAME/data/KEY` holds the elements of one storage each.
Nothing is unpacked: a record's name is only ever looked up.
"""

import io
import struct
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from export.tensor_file import (
    DTYPES,
    LARGEST_TABLE,
    TensorFileError,
    TensorInfo,
    read_flat,
    refuse_larger,
)
from export.torch_pickle import StridedTensor, read_state_dict

_RECORD_MAGIC: Final = b"PK\x03\x04"
_PICKLE_MAGIC: Final = b"\x80"
_RECORD_HEADER: Final = struct.Struct("<4s22xHH")  # magic …, lengths of name and extra field
_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True)
class _Record:
    """Where one record of the archive lies."""

    start: int
    size: int
    crc: int  # 0: none was written, as `torch.serialization.set_crc32_options(False)` does


class TorchFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the table of tensors of `file`, which is `path` opened.

        Raises:
            TensorFileError: if the file is no state dict in torch's zip format.
            OSError: if it cannot be read.
        """
        self._file = file
        self._records = _read_directory(file)
        self._checked: set[str] = set()
        self._root = _find_root(self._records)
        self._refuse_big_endian()
        self._views = read_state_dict(self._read_small("data.pkl"))
        self.tensors: dict[str, TensorInfo] = {}
        for name, view in self._views.items():
            self._check_bounds(name, view)
            self.tensors[name] = TensorInfo(view.storage.dtype, view.shape)
            refuse_larger(name, self.tensors[name], path.stat().st_size)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in C order.

        Raises:
            TensorFileError: if its storage is damaged.
            OSError: if the file cannot be read.
        """
        view = self._views[name]
        dtype = view.storage.dtype
        record = self._check_sum(f"data/{view.storage.key}")
        start = record.start + view.offset * DTYPES[dtype].itemsize
        flat = read_flat(self._file, start, view.span, dtype)
        if view.span == 0:
            return flat.reshape(view.shape)
        strides = [stride * flat.itemsize for stride in view.strides]
        strided = np.lib.stride_tricks.as_strided(flat, view.shape, strides, writeable=False)
        return np.asarray(strided, order="C")

    def _refuse_big_endian(self) -> None:
        order = f"{self._root}/byteorder"
        if order in self._records and self._read_small("byteorder") != b"little":
            raise TensorFileError("it was written on a big-endian machine")

    def _read_small(self, name: str) -> bytes:
        record = self._check_sum(name)
        if record.size > LARGEST_TABLE:
            raise TensorFileError(f"its {name} has {record.size} bytes: too many to be a table")
        self._file.seek(record.start)
        return self._file.read(record.size)

    def _check_sum(self, name: str) -> _Record:
        """Return a record after its bytes were held against their checksum, once."""
        record = self._records[f"{self._root}/{name}"]
        if record.crc and name not in self._checked:
            self._file.seek(record.start)
            found, left = 0, record.size
            while left and (chunk := self._file.read(min(left, _CHUNK))):
                found = zlib.crc32(chunk, found)
                left -= len(chunk)
            if found != record.crc:
                raise TensorFileError(f"its record {name} is damaged: the checksum is another")
        self._checked.add(name)
        return record

    def _check_bounds(self, name: str, view: StridedTensor) -> None:
        """Refuse a tensor that reaches beyond its storage, or a storage that is not there whole."""
        storage = view.storage
        record = self._records.get(f"{self._root}/data/{storage.key}")
        if record is None:
            raise TensorFileError(f"the storage of {name} is missing")
        if record.size < storage.elements * DTYPES[storage.dtype].itemsize:
            raise TensorFileError(f"the storage of {name} is too short for its elements")
        if len(view.shape) != len(view.strides):
            raise TensorFileError(f"{name} has not as many strides as sizes")
        if view.offset + view.span > storage.elements:
            raise TensorFileError(f"{name} reaches beyond its storage")


class _BoundedReads:
    """A file for zipfile that refuses to read a central directory of any size whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read as a file does.

        Raises:
            TensorFileError: if more than a table's bytes are asked for.
        """
        if size > LARGEST_TABLE:
            raise TensorFileError(f"its directory has {size} bytes: too many to be torch's")
        return self._file.read(LARGEST_TABLE if size < 0 else size)


def _read_directory(file: BinaryIO) -> dict[str, _Record]:
    magic = file.read(len(_RECORD_MAGIC))
    if magic[:1] == _PICKLE_MAGIC:
        raise TensorFileError(
            "it is in the format of torch before 1.6; load and save it with a newer torch"
        )
    if magic != _RECORD_MAGIC:
        raise TensorFileError("it is no zip archive, as torch writes them")
    try:
        with zipfile.ZipFile(_BoundedReads(file)) as archive:
            infos = archive.infolist()
    except (TensorFileError, OSError):
        raise
    except Exception as error:  # struct.error, UnicodeDecodeError, …: zipfile translates few
        raise TensorFileError(f"it is no whole zip archive: {error}") from error
    for name, times in Counter(info.filename for info in infos).items():
        if times > 1:
            raise TensorFileError(f"it has {times} records of the name {name}")
    return _locate(file, infos)


def _locate(file: BinaryIO, infos: list[zipfile.ZipInfo]) -> dict[str, _Record]:
    """Return where each record's bytes begin, which only its own header tells."""
    records: dict[str, _Record] = {}
    free, end = 0, file.seek(0, io.SEEK_END)  # no record may begin before, or end after
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
            raise TensorFileError(f"its record {info.filename} is compressed or encrypted")
        if info.header_offset < free:
            raise TensorFileError(f"its record {info.filename} overlaps another")
        if info.header_offset > end:
            raise TensorFileError(f"it ends before its record {info.filename}")
        file.seek(info.header_offset)
        header = file.read(_RECORD_HEADER.size)
        if len(header) < _RECORD_HEADER.size or not header.startswith(_RECORD_MAGIC):
            raise TensorFileError(f"its record {info.filename} has no header")
        _, *lengths = _RECORD_HEADER.unpack(header)
        start = info.header_offset + _RECORD_HEADER.size + sum(lengths)
        records[info.filename] = _Record(start, info.file_size, info.CRC)
        free = start + info.file_size
    if free > end:
        raise TensorFileError("it ends before its last record does")
    return records


def _find_root(records: dict[str, _Record]) -> str:
    """Return the folder in the archive that all of torch's records lie in."""
    roots = [name.removesuffix("/data.pkl") for name in records if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise TensorFileError(f"it has {len(roots)} records data.pkl where torch writes one")
    return roots[0]
