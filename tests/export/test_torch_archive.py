"""The zip archive of a torch file: cut, damaged, lying and overfull, each is one line."""

import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from export.safetensors_file import TensorFileError
from export.torch_file import TorchFile
from tests.export.torch_files import (
    program,
    read_file,
    refuse_file,
    table,
    vector,
    write_archive,
)

_ONE_VECTOR: Final = program(table({"x": vector()}))


# The archive.


def test_a_file_cut_anywhere_is_one_line(tmp_path: pathlib.Path) -> None:
    """Every beginning of a small file, so in every record and in the directory."""
    path = write_archive(tmp_path / "x.bin", _ONE_VECTOR)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refuse_file(path)
    path.write_bytes(b"[1, 2]")
    assert refuse_file(path).startswith("it is neither a zip archive nor a pickle")


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_a_file_with_any_byte_changed_raises_nothing_else(
    tmp_path: pathlib.Path, flip: int
) -> None:
    """It is refused, or the byte is one that nothing depends on."""
    path = write_archive(tmp_path / "x.bin", _ONE_VECTOR)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            assert read_file(path)["x"].tolist() == [0, 0]
        except TensorFileError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("record", "told"),
    [("data.pkl", "its record data.pkl is damaged"), ("data/0", "it is damaged")],
)
def test_a_record_that_does_not_fit_its_checksum_is_told(
    tmp_path: pathlib.Path, record: str, told: str
) -> None:
    """One bit flipped on the disk, in the table or in a storage."""
    path = write_archive(tmp_path / "x.bin", _ONE_VECTOR)
    content = bytearray(path.read_bytes())
    content[content.index(f"archive/{record}".encode()) + len(f"archive/{record}")] ^= 0x10
    path.write_bytes(content)
    assert refuse_file(path) == f"{told}: Bad CRC-32 for file 'archive/{record}'"


def test_a_file_that_shrinks_after_it_was_opened_is_told(tmp_path: pathlib.Path) -> None:
    """The storage's bytes are gone when they are asked for."""
    content = program(table({"x": vector(elements=10_000)}))
    path = write_archive(tmp_path / "x.bin", content, {"0": bytes(40_000)})
    with path.open("rb") as file:
        opened = TorchFile(path, file)
        path.write_bytes(b"")
        with pytest.raises(TensorFileError, match="it is damaged: it ends too early"):
            opened.read("x")


def test_a_zip_bomb_is_refused_unpacked(tmp_path: pathlib.Path) -> None:
    """100 MB of zeros in 100 KB: torch does not compress."""
    path = write_archive(tmp_path / "x.bin", bytes(100_000_000), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    assert refuse_file(path) == "its record archive/data.pkl is compressed or encrypted"


def test_a_pickle_too_large_for_a_table_is_refused_unread(tmp_path: pathlib.Path) -> None:
    """Four megabytes would be twenty thousand tensors."""
    path = write_archive(tmp_path / "x.bin", bytes(4 * 2**20 + 1))
    assert refuse_file(path) == "its data.pkl has 4194305 bytes: too many to be a table"


def edit_directory(
    path: pathlib.Path, edit: Callable[[bytearray, Iterator[int]], None]
) -> pathlib.Path:
    """Change a file's bytes, given the places of its central directory's entries."""
    content = bytearray(path.read_bytes())
    places = [at for at in range(len(content)) if content[at : at + 4] == b"PK\x01\x02"]
    edit(content, iter(places))
    path.write_bytes(content)
    return path


def _encrypt(content: bytearray, entries: Iterator[int]) -> None:
    content[next(entries) + 8] |= 1


def _overlap(content: bytearray, entries: Iterator[int]) -> None:
    first, second = next(entries), next(entries)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]  # offset of its header


def _enlarge(content: bytearray, entries: Iterator[int]) -> None:
    at = next(entries)
    content[at + 20 : at + 28] = struct.pack("<II", 400, 400)  # sizes, of data.pkl


def _send_beyond(content: bytearray, entries: Iterator[int]) -> None:
    *_, last = entries
    content[last + 42 : last + 46] = struct.pack("<I", 2**31)


def _send_to_zeros(content: bytearray, entries: Iterator[int]) -> None:
    *_, last = entries
    content[last + 42 : last + 46] = struct.pack("<I", len(content) - 8)


def _rename_to_the_first(content: bytearray, entries: Iterator[int]) -> None:
    next(entries)
    second = next(entries)
    content[second + 46 : second + 46 + 16] = b"archive/data.pkl"


def _leave_checksums_out(content: bytearray, entries: Iterator[int]) -> None:
    for at in entries:
        content[at + 16 : at + 20] = bytes(4)


def test_a_file_without_checksums_is_read(tmp_path: pathlib.Path) -> None:
    """As `torch.serialization.set_crc32_options(False)` has it, torch writes zeros for them."""
    path = write_archive(tmp_path / "x.bin", _ONE_VECTOR, {"0": struct.pack("<2f", 1.5, -2)})
    assert read_file(edit_directory(path, _leave_checksums_out))["x"].tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (_encrypt, "its record archive/data.pkl is compressed or encrypted"),
        (_overlap, "it is damaged: File name in directory"),
        (_enlarge, "its record data.pkl is damaged: "),
        (_send_beyond, "its record archive/data/key has no header"),
        (_send_to_zeros, "its record archive/data/key has no header"),
        (_rename_to_the_first, "it has 2 records of the name archive/data.pkl"),
    ],
)
def test_a_directory_that_lies_is_refused(
    tmp_path: pathlib.Path, edit: Callable[[bytearray, Iterator[int]], None], fault: str
) -> None:
    """Encrypted, two records in one place, one into the next, beyond the end, nowhere, twice."""
    content = program(table({"x": vector(key="key")}))
    path = write_archive(tmp_path / "x.bin", content, {"key": bytes(8)})
    assert refuse_file(edit_directory(path, edit)).startswith(fault)


def test_a_directory_of_any_size_is_not_read(tmp_path: pathlib.Path) -> None:
    """A hundred megabytes of entries would take a gigabyte once read."""
    path = tmp_path / "x.bin"
    size = 100_000_000
    with path.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.seek(size)
        file.write(struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 9, 9, size, 0, 0))
    assert refuse_file(path) == f"its directory has {size} bytes: too many to be torch's"


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ({"other/data.pkl": b""}, "it has 2 records data.pkl where torch writes one"),
        ({"archive/byteorder": b"little"}, None),  # torch says it since 2.1
        ({"../evil": b"x", "/evil": b"x", "archive/../../evil": b"x"}, None),  # passed over
        ({"archive/byteorder": b"big"}, "it was written on a big-endian machine"),
    ],
)
def test_another_archive_is_refused(
    tmp_path: pathlib.Path, extra: dict[str, bytes], fault: str | None
) -> None:
    """Two tables, or numbers in another order of bytes."""
    path = write_archive(tmp_path / "x.bin", _ONE_VECTOR, extra=extra)
    if fault is None:
        assert set(read_file(path)) == {"x"}
        assert list(tmp_path.iterdir()) == [path]
    else:
        assert refuse_file(path) == fault
