"""Reads the `.index` file of a TensorFlow checkpoint: which tensors there are, and where they lie.

It is a table of LevelDB's kind (`doc/table_format.md` there) from a tensor's name to a protobuf
message (`tensor_bundle.proto` of TensorFlow, which writes both since 1.0):

    blocks, each with a byte for its compression and its checksum | footer: where the index lies
    block: entries, each with as much of its key as differs from the key before | offsets of some
    index: a block whose values tell where the other blocks lie
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from export.crc32c import masked_crc32c
from export.safetensors_file import LARGEST_TABLE, Shape, TensorFileError

_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_SIZE: Final = 48
_TRAILER: Final = struct.Struct("<BI")  # of a block: its compression, its checksum
_COMPRESSIONS: Final[Mapping[int, str]] = {1: "snappy", 2: "zstd"}
_COUNT: Final = struct.Struct("<I")
# Bounds for memory: a few bytes of a damaged file could stand for a long key.
_LONGEST_KEY: Final = 256
_MOST_TENSORS: Final = 2**14
_MOST_AXES: Final = 8
_LONGEST_VARINT: Final = 10  # bytes

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
_FIXED_SIZES: Final[Mapping[int, int]] = {_FIXED64: 8, _FIXED32: 4}

_BIG_ENDIAN: Final = 1
_HEADER_KEY: Final = b""
# TensorFlow's numbers of types (`types.proto`), under the names of safetensors.
_DTYPES: Final[Mapping[int, str]] = {
    1: "F32",
    2: "F64",
    3: "I32",
    4: "U8",
    5: "I16",
    6: "I8",
    7: "string",
    9: "I64",
    10: "BOOL",
    14: "BF16",
    19: "F16",
}

_DAMAGED: Final = "it is damaged ({}); copy or download it again"


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a checkpoint. No number is checked against the shard yet."""

    dtype: str  # as safetensors names it, or another
    shape: Shape
    shard: int
    offset: int  # bytes
    size: int  # bytes
    checksum: int  # masked
    in_slices: bool  # its parts have entries of their own


class TensorflowIndex:
    """The entries of one open index file by name, and how many shards there are."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read `file`, which is `path` opened, or raise TensorFileError."""
        data = file.read(LARGEST_TABLE + 1)
        if len(data) > LARGEST_TABLE:
            raise TensorFileError(f"it has more than {LARGEST_TABLE} bytes, as no index has")
        if len(data) < _FOOTER_SIZE or not data.endswith(_MAGIC):
            raise TensorFileError("it is not the index of a TensorFlow checkpoint, or cut off")
        records = _read_table(data)
        key, header = next(records, (_HEADER_KEY, b""))
        fields = _read_message(header)
        if key != _HEADER_KEY or not fields:
            raise TensorFileError(_DAMAGED.format("its header is missing"))
        if _number(fields, 2) == _BIG_ENDIAN:
            raise TensorFileError("it was written by a big-endian machine: not implemented")
        self.shards = _number(fields, 1)
        self.entries: dict[str, Entry] = {}
        for key, value in records:
            if len(self.entries) == _MOST_TENSORS:
                raise TensorFileError(f"it lists more than {_MOST_TENSORS} tensors")
            self.entries[key.decode(errors="backslashreplace")] = _read_entry(value)


def _read_entry(value: bytes) -> Entry:
    fields = _read_message(value)
    dtype = _number(fields, 1)
    return Entry(
        dtype=_DTYPES.get(dtype, f"TensorFlow's type {dtype}"),
        shape=_read_shape(fields),
        shard=_number(fields, 3),
        offset=_number(fields, 4),
        size=_number(fields, 5),
        checksum=_number(fields, 6),
        in_slices=7 in fields,
    )


def _read_shape(fields: Mapping[int, list[int | bytes]]) -> Shape:
    axes = [
        _number(_read_message(axis), 1)
        for message in fields.get(2, ())
        for axis in _read_message(message).get(2, ())
    ]
    if len(axes) > _MOST_AXES:
        raise TensorFileError(
            f"it lists a tensor of {len(axes)} axes, expected at most {_MOST_AXES}"
        )
    return tuple(axes)


def _number(fields: Mapping[int, list[int | bytes]], field: int) -> int:
    """Return a field of a message, of which the last counts; one that is 0 is left out."""
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise TensorFileError(_DAMAGED.format("a number is missing"))
    return value


def _read_message(message: int | bytes) -> dict[int, list[int | bytes]]:
    """Return the fields of a protobuf message by their numbers.

    A negative number becomes one of 2^63 or more, which is as wrong wherever a size is meant.
    """
    fields: dict[int, list[int | bytes]] = {}
    if isinstance(message, int):
        raise TensorFileError(_DAMAGED.format("a message is missing"))
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _read_varint(message, at)
            fields.setdefault(number, []).append(value)
            continue
        if wire_type == _BYTES:
            size, at = _read_varint(message, at)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise TensorFileError(_DAMAGED.format("an unknown kind of field"))
        part = _cut(message, at, size)
        fixed = wire_type in _FIXED_SIZES
        fields.setdefault(number, []).append(int.from_bytes(part, "little") if fixed else part)
        at += size
    return fields


def _read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the keys and values of a table, which ascend."""
    _, at = _read_handle(data, len(data) - _FOOTER_SIZE)  # a block of filters, which is empty
    index, _ = _read_handle(data, at)
    end, last = 0, None
    for _, handle in _read_block(data, index):
        block, _ = _read_handle(handle, 0)
        if block[0] < end:  # else a few bytes could name the same block a million times
            raise TensorFileError(_DAMAGED.format("its blocks overlap"))
        end = sum(block)
        for key, value in _read_block(data, block):
            if last is not None and key <= last:
                raise TensorFileError(_DAMAGED.format("its names are not in order"))
            last = key
            yield key, value


def _read_handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Return the (offset, size) of a block, and where they end."""
    offset, at = _read_varint(data, at)
    size, at = _read_varint(data, at)
    return (offset, size), at


def _read_block(data: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Give the keys and values of one block, after a look at its checksum."""
    offset, size = handle
    content = _cut(data, offset, size)
    compression, checksum = _TRAILER.unpack(_cut(data, offset + size, _TRAILER.size))
    if masked_crc32c(np.frombuffer(data, np.uint8, size + 1, offset)) != checksum:
        raise TensorFileError(_DAMAGED.format("a checksum is wrong"))
    if compression:
        name = _COMPRESSIONS.get(compression, f"method {compression}")
        fault = f"it is compressed with {name}: not implemented"
        raise TensorFileError(f"{fault}; TensorFlow's Saver writes it without")
    [restarts] = _COUNT.unpack(content[-_COUNT.size :].rjust(_COUNT.size, b"\xff"))
    end = size - _COUNT.size * (1 + restarts)
    if end < 0:
        raise TensorFileError(_DAMAGED.format("a block is too short"))
    return _read_records(content[:end])


def _read_records(records: bytes) -> Iterator[tuple[bytes, bytes]]:
    at, key = 0, b""
    while at < len(records):
        shared, at = _read_varint(records, at)
        own, at = _read_varint(records, at)
        length, at = _read_varint(records, at)
        if shared > len(key) or shared + own > _LONGEST_KEY:
            raise TensorFileError(_DAMAGED.format("a name is too long"))
        key = key[:shared] + _cut(records, at, own)
        yield key, _cut(records, at + own, length)
        at += own + length


def _cut(data: bytes, start: int, size: int) -> bytes:
    part = data[start : start + size]
    if len(part) != size:
        raise TensorFileError(_DAMAGED.format("it points beyond its end"))
    return part


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of 7 bits a byte, the lowest first, and where it ends."""
    value = 0
    for number, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value, at + number + 1
    raise TensorFileError(_DAMAGED.format("a number is cut off"))
