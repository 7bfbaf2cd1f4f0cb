"""The checksum against the numbers of RFC 3720, and against one byte after the other."""

import numpy as np
import pytest

from export.crc32c import crc32c, masked_crc32c
from tests.export.tensorflow_tables import plain_crc32c

_ROW = 4 << 14  # bytes that are taken at once


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_numbers_of_the_standard(message: bytes, expected: int) -> None:
    """RFC 3720, appendix B.4, whose bytes stand the lowest first."""
    assert crc32c(np.frombuffer(message, np.uint8)) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5, _ROW - 4, _ROW - 3, _ROW, _ROW + 1, 2 * _ROW + 7])
def test_any_length_is_as_one_byte_after_the_other(size: int) -> None:
    """About the ends of a row and of a word."""
    message = np.random.Generator(np.random.Philox(size)).integers(0, 256, size, np.uint8)
    assert crc32c(message) == plain_crc32c(message.tobytes())


def test_the_bytes_of_an_array_count_in_its_own_order() -> None:
    """Of two float16 numbers in a matrix: four bytes."""
    array = np.array([[1.5], [-2.0]], "<f2")
    assert crc32c(array) == plain_crc32c(bytes([0x00, 0x3E, 0x00, 0xC0]))


def test_the_masked_form_is_turned_and_shifted() -> None:
    """By hand: 0xE3069283, the check value of "123456789", turned right by 15 is 0x2507C60D."""
    assert masked_crc32c(np.frombuffer(b"123456789", np.uint8)) == 0x2507C60D + 0xA282EAD8
