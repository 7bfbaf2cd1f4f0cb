"""The zip archive of a torch file: damaged, lying and overfull, each is one line."""

import pathlib
import struct
import zipfile
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
_KEYED: Final = program(table({"x": vector(key="key")}))
_SECOND: Final = 30 + len("archive/data.pkl") + len(_KEYED)  # where its second record begins


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


@pytest.mark.parametrize(
    ("entry", "place", "new", "fault"),  # of the central directory, as PKWARE's APPNOTE has it
    [
        (0, 8, b"\1", "its record archive/data.pkl is compressed or encrypted"),  # flags
        (0, 20, struct.pack("<II", 400, 400), "its record data.pkl is damaged: "),
        (1, 42, bytes(4), "it is damaged: File name in directory"),  # offset of its header
        (1, 42, struct.pack("<I", 2**31), "its record archive/data/key has no header"),
        (1, 42, struct.pack("<I", _SECOND + 1), "it is damaged: Bad magic number"),
        (1, 46, b"archive/data.pkl", "it has 2 records of the name archive/data.pkl"),
    ],
)
def test_a_directory_that_lies_is_refused(
    tmp_path: pathlib.Path, entry: int, place: int, new: bytes, fault: str
) -> None:
    """Encrypted, one into the next, two in one place, beyond the end, nowhere, twice."""
    path = write_archive(tmp_path / "x.bin", _KEYED, {"key": bytes(8)})
    content = bytearray(path.read_bytes())
    at = [at for at in range(len(content)) if content[at : at + 4] == b"PK\1\2"][entry] + place
    content[at : at + len(new)] = new
    path.write_bytes(content)
    assert refuse_file(path).startswith(fault)


def test_a_directory_of_any_size_is_not_read(tmp_path: pathlib.Path) -> None:
    """A hundred megabytes of entries would take a gigabyte once read."""
    path, size = tmp_path / "x.bin", 100_000_000
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
