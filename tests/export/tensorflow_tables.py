"""Owns the writing of a TensorFlow checkpoint's index by hand, right or wrong in one thing."""

import functools
import pathlib
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from export.safetensors_file import TensorFileError
from export.tensorflow_index import TensorflowIndex

Records = Sequence[tuple[bytes, bytes]]

HEADER: Final = (b"", b"\x08\x01")  # one shard
_MAGIC: Final = bytes.fromhex("57fb808b247547db")


@functools.cache
def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


def plain_crc32c(message: bytes) -> int:
    """Return the CRC-32C, one byte after the other."""
    crc = 0xFFFFFFFF
    for byte in message:
        crc = crc >> 8 ^ _crc_of_byte((crc ^ byte) & 0xFF)
    return crc ^ 0xFFFFFFFF


def masked(message: bytes) -> int:
    """Return the checksum as TensorFlow writes it."""
    crc = plain_crc32c(message)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def varint(number: int) -> bytes:
    """Return a number in 7 bits a byte, the lowest first."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def entry(fields: Mapping[int, int] | None = None, *, axes: Sequence[int] = ()) -> bytes:
    """Return the message of a tensor: numbers by their fields, and the sizes of its axes."""
    shape = b"".join(_part(2, b"\x08" + varint(axis)) for axis in axes)
    numbers = {1: 1, **(fields or {})}
    return b"".join(_number(*field) for field in numbers.items()) + _part(2, shape)


def _number(field: int, value: int) -> bytes:
    if field == 6:
        return bytes([field << 3 | 5]) + struct.pack("<I", value)
    return bytes([field << 3]) + varint(value)


def _part(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + varint(len(content)) + content


def record(key: bytes, value: bytes, shared: int = 0) -> bytes:
    """Return an entry of a block, whose key goes on after so many bytes of the last."""
    return varint(shared) + varint(len(key)) + varint(len(value)) + key + value


def block(content: bytes, *, restarts: int = 1, compression: int = 0) -> bytes:
    """Return a block with its trailer."""
    whole = content + bytes(4) + struct.pack("<I", restarts) + bytes([compression])
    return whole + struct.pack("<I", masked(whole))


def table(*blocks: bytes, handles: Sequence[tuple[int, int]] | None = None) -> bytes:
    """Return a table of blocks; `handles` are offsets and sizes that its index lies about."""
    starts = [sum(map(len, blocks[:number])) for number in range(len(blocks))]
    true = [(start, len(part) - 5) for start, part in zip(starts, blocks, strict=True)]
    places = true if handles is None else handles
    index = block(
        b"".join(
            record(bytes([number]), varint(start) + varint(size))
            for number, (start, size) in enumerate(places)
        )
    )
    data = b"".join(blocks)
    footer = bytes(2) + varint(len(data)) + varint(len(index) - 5)
    return data + index + footer.ljust(40, b"\0") + _MAGIC


def whole_table(records: Records) -> bytes:
    """Return a table with all records in one block."""
    return table(block(b"".join(record(key, value) for key, value in records)))


def read_index(path: pathlib.Path) -> TensorflowIndex:
    """Read an index file."""
    with path.open("rb") as file:
        return TensorflowIndex(path, file)


def refuse_index(path: pathlib.Path, content: bytes | None) -> str:
    """Return why an index of this content, or as it is, is refused; other errors come through."""
    if content is not None:
        path.write_bytes(content)
    try:
        read_index(path)
    except TensorFileError as error:
        return str(error)
    raise AssertionError("it was read")
