"""Reads one `pytorch_model.bin` without torch and without running code from the file.

Since 1.6 torch writes a zip archive, before it wrote a stream of pickles (`save` and `_legacy_save`
in `torch/serialization.py`).
"""

import io
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_RECORD_HEADER: Final = struct.Struct("<26xHH")  # …, lengths of name and extra field
_CHUNK: Final = 2**20  # so that comparing a checksum takes no memory of a storage's size

_PICKLE_MAGIC: Final = b"\x80"
_MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C
_VERSION: Final = 1001
_COUNT_SIZE: Final = 8


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where the elements of a storage lie."""

    start: int
    size: int
    check: Callable[[], None] | None = None  # compares them with their checksum


class TorchFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the table of tensors of `file`, which is `path` opened."""
        self._file = file
        table, self._storages = _open_format(file)
        self._views = find_tensors(table)
        self._checked: set[str] = set()  # keys of storages, which tensors may share
        self.tensors: dict[str, TensorInfo] = {}
        for name, view in self._views.items():
            self._check_bounds(name, view)
            self.tensors[name] = TensorInfo(view.storage.dtype, view.shape)
            refuse_larger(name, self.tensors[name], path.stat().st_size)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in C order."""
        view = self._views[name]
        key, dtype = view.storage.key, view.storage.dtype
        stored = self._storages[key]
        if stored.check and key not in self._checked:
            stored.check()
            self._checked.add(key)
        start = stored.start + view.offset * DTYPES[dtype].itemsize
        flat = read_flat(self._file, start, view.span, dtype)
        if view.span == 0:
            return flat.reshape(view.shape)
        strides = [stride * flat.itemsize for stride in view.strides]
        strided = np.lib.stride_tricks.as_strided(flat, view.shape, strides, writeable=False)
        return np.asarray(strided, order="C")

    def _check_bounds(self, name: str, view: StridedTensor) -> None:
        """Refuse a tensor that reaches beyond its storage, or a storage that is not there whole."""
        storage = view.storage
        if storage.key not in self._storages:
            raise TensorFileError(f"the storage of {name} is missing")
        whole = storage.elements * DTYPES[storage.dtype].itemsize
        if self._storages[storage.key].size < whole:
            raise TensorFileError(f"the storage of {name} is too short for its elements")
        if len(view.shape) != len(view.strides):
            raise TensorFileError(f"{name} has more or fewer strides than sizes")
        if view.offset + view.span > storage.elements:
            raise TensorFileError(f"{name} reaches beyond its storage")


def _open_format(file: BinaryIO) -> tuple[object, Mapping[str, _Stored]]:
    """Return what the table of the file's own format describes, and its storages by their keys."""
    magic = file.read(len(_RECORD_MAGIC))
    file.seek(0)
    if magic == _RECORD_MAGIC:
        return _read_archive(file)
    if magic.startswith(_PICKLE_MAGIC):
        return _read_stream(file)
    raise TensorFileError("it is neither a zip archive nor a pickle, as torch writes them")


def _read_archive(file: BinaryIO) -> tuple[object, Mapping[str, _Stored]]:
    """Read a zip archive.

    Its records are not compressed: `NAME/data.pkl` tells the tensors, and `NAME/data/KEY` holds the
    elements of one storage each. Nothing is unpacked: a record's name is only ever looked up.
    """
    with _faults_told("it is not a complete zip archive"):
        archive = zipfile.ZipFile(_BoundedReads(file))
    records = _find_records(archive)
    if "byteorder" in records and _read_record(archive, records, "byteorder") != b"little":
        raise TensorFileError("it was written on a big-endian machine")
    table, _ = run_pickle(_read_record(archive, records, "data.pkl"))
    storages = {
        name.removeprefix("data/"): _locate_record(file, archive, record)
        for name, record in records.items()
        if name.startswith("data/")
    }
    return table, storages


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


def _find_records(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the records of the one folder that all of torch's lie in, by their names there."""
    infos = archive.infolist()
    for name, times in Counter(info.filename for info in infos).items():
        if times > 1:
            raise TensorFileError(f"it has {times} records of the name {name}")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
            raise TensorFileError(f"its record {info.filename} is compressed or encrypted")
        if info.header_offset < 0:
            raise TensorFileError(f"its record {info.filename} begins before the file does")
        if info.CRC == 0:  # none was written: `torch.serialization.set_crc32_options(False)`
            del info.CRC  # so zipfile compares nothing
    tables = [info.filename for info in infos if info.filename.endswith("/data.pkl")]
    if len(tables) != 1:
        raise TensorFileError(f"it has {len(tables)} records data.pkl where torch writes one")
    root = tables[0].removesuffix("data.pkl")
    return {i.filename.removeprefix(root): i for i in infos if i.filename.startswith(root)}


def _read_record(
    archive: zipfile.ZipFile, records: Mapping[str, zipfile.ZipInfo], name: str
) -> bytes:
    """Return a small record, after zipfile has compared it with its checksum."""
    if records[name].file_size > LARGEST_TABLE:
        found = records[name].file_size
        raise TensorFileError(f"its {name} has {found} bytes: too many to be a table")
    with _faults_told(f"its record {name} is damaged"):
        return archive.read(records[name])


def _locate_record(file: BinaryIO, archive: zipfile.ZipFile, record: zipfile.ZipInfo) -> _Stored:
    """Return where a record's bytes begin, which only its own header tells."""

    def check() -> None:
        with _faults_told("it is damaged"), archive.open(record) as opened:
            while opened.read(_CHUNK):  # at the end zipfile compares the checksum
                pass

    with _faults_told(f"its record {record.filename} has no header"):
        file.seek(record.header_offset)
        lengths = _RECORD_HEADER.unpack(file.read(_RECORD_HEADER.size))
    start = record.header_offset + _RECORD_HEADER.size + sum(lengths)
    return _Stored(start, record.file_size, check)


@contextmanager
def _faults_told(fault: str) -> Iterator[None]:
    """Raise what zipfile finds as a TensorFileError."""
    try:
        yield
    except (TensorFileError, OSError, MemoryError):
        raise
    except Exception as error:  # struct.error, EOFError, UnicodeDecodeError, …: it translates few
        reason = str(error) or "it ends too early"
        raise TensorFileError(f"{fault}: {reason}") from error


def _read_stream(file: BinaryIO) -> tuple[object, Mapping[str, _Stored]]:
    """Read a file from before 1.6.

    Five pickles, one after the other: a magic number, the version of the format, facts about the
    machine, the table of tensors, the list of storages. Then each storage of that list: the number
    of its elements, in 8 bytes, and the elements. There are no checksums.
    """
    pickles = io.BytesIO(file.read(LARGEST_TABLE))
    _check_start(pickles)
    table, described = run_pickle(pickles)
    find_tensors(table)  # a file of something else is told as such, not by its lack of storages
    keys = run_pickle(pickles)[0]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise TensorFileError("it has no list of its storages")
    if sorted(keys) != sorted(described):
        raise TensorFileError("it does not list the storages that its table describes, each once")
    return table, _locate_storages(file, pickles.tell(), [described[key] for key in keys])


def _check_start(pickles: BinaryIO) -> None:
    if run_pickle(pickles)[0] != _MAGIC_NUMBER:
        raise TensorFileError("it is a pickle, but none that torch wrote")
    version = run_pickle(pickles)[0]
    if version != _VERSION:
        raise TensorFileError("it is in a version of torch's format that is not known")
    machine = run_pickle(pickles)[0]
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise TensorFileError("it was written on a big-endian machine")


def _locate_storages(
    file: BinaryIO, start: int, storages: Sequence[TorchStorage]
) -> dict[str, _Stored]:
    """Return where the elements of each storage lie: one after the other from `start` on."""
    found: dict[str, _Stored] = {}
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
        found[storage.key] = _Stored(start, size)
        start += size
    return found
