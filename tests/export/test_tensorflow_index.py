"""The index of a TensorFlow checkpoint: made by hand, cut, lying, and larger than it says."""

import os
import pathlib
import struct
import tracemalloc
from typing import Final

import pytest

from export.tensorflow_index import Entry
from tests.export.tensorflow_tables import (
    HEADER,
    block,
    entry,
    read_index,
    record,
    refuse_index,
    table,
    varint,
    whole_table,
)
from tests.vectors.tensorflow_cases import FOLDER

_HEADER_RECORD: Final = record(*HEADER)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return where a test may write its file."""
    return tmp_path / "x.index"


def test_every_field_is_read_and_one_that_is_0_may_be_left_out(path: pathlib.Path) -> None:
    """Two shards; names that share a beginning, in two blocks."""
    full = entry({1: 19, 3: 1, 4: 300, 5: 24, 6: 0xFEDCBA98}, axes=[1, 3, 4])
    first = block(record(b"", b"\x08\x02") + record(b"ab/c", entry()))
    path.write_bytes(table(first, block(record(b"ab/d", full) + record(b"e", entry(), shared=3))))
    index = read_index(path)
    assert index.shards == 2
    assert index.entries == {
        "ab/c": Entry("F32", (), 0, 0, 0, 0, False),
        "ab/d": Entry("F16", (1, 3, 4), 1, 300, 24, 0xFEDCBA98, False),
        "ab/e": Entry("F32", (), 0, 0, 0, 0, False),
    }


def test_fields_of_later_versions_are_passed_over(path: pathlib.Path) -> None:
    """Of every kind that protobuf has: a number, 4 and 8 bytes, a text."""
    later = b"\x78\x01" + b"\x7d" + bytes(4) + b"\x79" + bytes(8) + b"\x7a\x03abc"
    path.write_bytes(whole_table([HEADER, (b"a", entry({5: 8}) + later)]))
    assert read_index(path).entries["a"].size == 8


_ONE: Final = block(_HEADER_RECORD)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not the index of a TensorFlow checkpoint"),
        (b"\0" * 100, "not the index of a TensorFlow checkpoint"),
        (whole_table([HEADER])[:-1], "not the index of a TensorFlow checkpoint"),
        (whole_table([HEADER])[1:], "checksum is wrong"),
        (whole_table([]), "its header is missing"),
        (whole_table([(b"a", entry())]), "its header is missing"),
        (whole_table([(b"", b"\x08\x01\x10\x01")]), "big-endian"),
        (table(_ONE, handles=[(2**63, 5)]), "points beyond its end"),
        (table(_ONE, handles=[(0, 2**63)]), "points beyond its end"),
        (table(_ONE, handles=[(0, len(_ONE) - 5)] * 2), "its blocks overlap"),
        (table(block(b""), _ONE, handles=[(13, len(_ONE) - 5), (0, 8)]), "its blocks overlap"),
        (table(block(_HEADER_RECORD, compression=1)), "compressed with snappy: not implemented"),
        (table(block(_HEADER_RECORD, compression=9)), "compressed with method 9: not implemented"),
        (table(block(_HEADER_RECORD, restarts=2**32 - 1)), "a block is too short"),
        (table(block(_HEADER_RECORD + record(b"a", entry(), shared=1))), "a name is too long"),
        (table(block(_HEADER_RECORD + record(b"a" * 257, entry()))), "a name is too long"),
        (table(block(_HEADER_RECORD + b"\0" + varint(2**62) + b"\0a")), "a name is too long"),
        (table(block(_HEADER_RECORD + b"\0\1" + varint(2**62) + b"a")), "points beyond its end"),
        (table(block(_HEADER_RECORD + b"\xff" * 20)), "a number is cut off"),
        (whole_table([HEADER, (b"b", entry()), (b"a", entry())]), "names are not in order"),
        (whole_table([HEADER, (b"b", entry()), (b"b", entry())]), "names are not in order"),
        (whole_table([HEADER, (b"a", b"\x08")]), "a number is cut off"),
        (whole_table([HEADER, (b"a", b"\x12\x7f")]), "points beyond its end"),
        (whole_table([HEADER, (b"a", b"\x10\x01")]), "a message is missing"),
        (whole_table([HEADER, (b"a", b"\x0a\x00")]), "a number is missing"),
        (whole_table([HEADER, (b"a", b"\x0b")]), "an unknown kind of field"),
        (whole_table([HEADER, (b"a", entry(axes=[1] * 9))]), "a tensor of 9 axes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(path: pathlib.Path, content: bytes, reason: str) -> None:
    """One thing each; no other error, and no endless loop."""
    assert reason in refuse_index(path, content)


def test_one_wrong_bit_anywhere_in_the_list_of_tensors_is_found(path: pathlib.Path) -> None:
    """Of a file that TensorFlow wrote; the last 100 bytes say where the list lies."""
    whole = (FOLDER / "one" / "model.ckpt.index").read_bytes()
    for at in range(0, len(whole) - 100, 16):
        refuse_index(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])


def test_a_small_file_cannot_name_a_million_tensors(path: pathlib.Path) -> None:
    """Names that share their beginning take 7 bytes in the file, and 200 in memory."""
    names = (struct.pack(">I", number) for number in range(2**14))
    long = record(b"k" * 200, b"") + b"".join(record(n, b"", shared=200) for n in names)
    reason = refuse_index(path, table(block(_HEADER_RECORD + long)))
    assert reason == "it lists more than 16384 tensors"


def test_a_file_larger_than_any_index_is_not_read(path: pathlib.Path) -> None:
    """Only as much of it as an index may have."""
    path.touch()
    os.truncate(path, 2**33)
    tracemalloc.start()
    try:
        reason = refuse_index(path, None)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert reason.startswith("it has more than 4194304 bytes")
