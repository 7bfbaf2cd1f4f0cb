"""Reads one `pytorch_model.bin` without torch and without running code from the file.

Since 1.6 torch writes a zip archive, before it wrote a stream of pickles (`save` and `_legacy_save`
in `torch/serialization.py`).
"""

import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from export.torch_pickle import StridedTensor, TorchStorage, find_tensors, run_pickle

_RECORD_MAGIC: Final = b"PK\x03\x04"
_RECORD_HEADER: Final = struct.Struct("<4s22xHH")  # magic …, lengths of name and extra field
_CHUNK: Final = 2**20

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


@dataclass(frozen=True, slots=True)
class _Record:
    """Where one record of the archive lies."""

    start: int
    size: int
    crc: int  # 0: none was written, as `torch.serialization.set_crc32_options(False)` does


class _TorchArchive:
    """The table of tensors of a zip archive, and where its storages lie.

    Its records are not compressed: `NAME/data.pkl` tells the tensors, and `NAME/data/KEY` holds the
    elements of one storage each. Nothing is unpacked: a record's name is only ever looked up.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._records = _read_directory(file)
        self._checked: set[str] = set()
        self._root = _find_root(self._records)
        self._refuse_big_endian()
        self.views: Mapping[str, StridedTensor] = find_tensors(
            run_pickle(self._read_small("data.pkl"))[0]
        )

    def find_storage(self, key: str) -> tuple[int, int] | None:
        """Return where a storage begins and how many bytes it has; None if it is not there."""
        record = self._records.get(f"{self._root}/data/{key}")
        return (record.start, record.size) if record else None

    def check_storage(self, key: str) -> None:
        """Compare the bytes of a storage with their checksum."""
        self._check_sum(f"data/{key}")

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
        """Return a record, after comparing its bytes with their checksum, once."""
        record = self._records[f"{self._root}/{name}"]
        if record.crc and name not in self._checked:
            self._file.seek(record.start)
            found, left = 0, record.size
            while left and (chunk := self._file.read(min(left, _CHUNK))):
                found = zlib.crc32(chunk, found)
                left -= len(chunk)
            if found != record.crc:
                raise TensorFileError(f"its record {name} is damaged: its checksum differs")
        self._checked.add(name)
        return record


class _BoundedReads:
    """A file for zipfile that refuses to read a central directory of any size whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read as a file does."""
        if size > LARGEST_TABLE:
            raise TensorFileError(f"its directory has {size} bytes: too many to be torch's")
        return self._file.read(LARGEST_TABLE if size < 0 else size)


def _read_directory(file: BinaryIO) -> dict[str, _Record]:
    try:
        with zipfile.ZipFile(_BoundedReads(file)) as archive:
            infos = archive.infolist()
    except (TensorFileError, OSError):
        raise
    except Exception as error:  # struct.error, UnicodeDecodeError, …: zipfile translates few
        raise TensorFileError(f"it is not a complete zip archive: {error}") from error
    for name, times in Counter(info.filename for info in infos).items():
        if times > 1:
            raise TensorFileError(f"it has {times} records of the name {name}")
    return _locate_records(file, infos)


def _locate_records(file: BinaryIO, infos: list[zipfile.ZipInfo]) -> dict[str, _Record]:
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
        self._storages = _locate_storages(file, pickles.tell(), [storages[key] for key in keys])

    def find_storage(self, key: str) -> tuple[int, int] | None:
        """Return where a storage begins and how many bytes it has; None if it is not there."""
        return self._storages.get(key)

    def check_storage(self, key: str) -> None:
        """Do nothing: there is no checksum."""


def _open_format(file: BinaryIO) -> _TorchArchive | _TorchStream:
    magic = file.read(len(_RECORD_MAGIC))
    file.seek(0)
    if magic == _RECORD_MAGIC:
        return _TorchArchive(file)
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
    """Return the list of storages, each of which the table must describe once."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise TensorFileError("it has no list of its storages")
    if not storages.keys() >= set(keys):
        raise TensorFileError("it lists a storage that its table does not mention")
    if len(set(keys)) < len(keys):
        raise TensorFileError("it lists a storage twice")
    return keys


def _locate_storages(
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
