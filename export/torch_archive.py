"""Reads the zip archive that torch has written since 1.6 (`torch/serialization.py`).

Its records are not compressed: `NAME/data.pkl` tells the tensors, and `NAME/data/KEY` holds the
elements of one storage each. Nothing is unpacked: a record's name is only ever looked up.
"""

import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from export.safetensors_file import LARGEST_TABLE, TensorFileError
from export.torch_pickle import StridedTensor, find_tensors, run_pickle

RECORD_MAGIC: Final = b"PK\x03\x04"
_RECORD_HEADER: Final = struct.Struct("<4s22xHH")  # magic …, lengths of name and extra field
_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True)
class _Record:
    """Where one record of the archive lies."""

    start: int
    size: int
    crc: int  # 0: none was written, as `torch.serialization.set_crc32_options(False)` does


class TorchArchive:
    """The table of tensors of one archive, and where its storages lie."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the table.

        Raises:
            TensorFileError: if the file is no whole archive of a state dict.
            OSError: if it cannot be read.
        """
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
        """Hold the bytes of a storage that is there against their checksum.

        Raises:
            TensorFileError: if they do not fit.
            OSError: if they cannot be read.
        """
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
        """Return a record after its bytes were held against their checksum, once."""
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
        if len(header) < _RECORD_HEADER.size or not header.startswith(RECORD_MAGIC):
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
