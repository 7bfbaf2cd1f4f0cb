"""Files of torch before 1.6: five pickles and raw storages, cut, lying, overfull, with code."""

import os
import pathlib
import pickle
import struct
import tracemalloc
from typing import Final

import pytest

from tests.export.torch_files import (
    EMPTY_TUPLE,
    Caller,
    listing,
    nest_pairs,
    number,
    program,
    read_file,
    rebuild,
    refuse_file,
    sizes,
    stream,
    table,
    text,
    vector,
)

_TWO: Final = struct.pack("<2f", 1.5, -2)
_FOUR: Final = struct.pack("<4f", 1, 2, 3, 4)


def view(
    whole: bytes, offset: int = 0, shape: tuple[int, ...] = (2,), strides: tuple[int, ...] = (1,)
) -> bytes:
    """Push a view of a storage."""
    return rebuild(whole, number(offset), sizes(shape), sizes(strides))


_ONE_VECTOR: Final = program(table({"x": vector(b"N")}))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return where a test may write its file."""
    return tmp_path / "x.bin"


def refuse(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return refuse_file(path)


def test_a_file_made_by_hand_is_read_as_torchs_are(path: pathlib.Path) -> None:
    """What the tests below damage is whole before; storages lie in the order of their list."""
    tables = program(table({"x": vector(b"N"), "y": vector(b"N", key="b", elements=4)}))
    path.write_bytes(stream(tables, {"b": _FOUR, "0": _TWO}))
    assert {name: found.tolist() for name, found in read_file(path).items()} == {
        "x": [1.5, -2],
        "y": [1, 2, 3, 4],
    }


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"magic": program(number(7))}, "it is a pickle, but none that torch wrote"),
        (
            {"version": program(number(1002))},
            "it is in a version of torch's format that is not known",
        ),
        (
            {"facts": program(table({"little_endian": b"\x89"}))},
            "it was written on a big-endian machine",
        ),
        ({"keys": program(listing(number(0)))}, "it has no list of its storages"),
        *(
            (
                {"keys": program(listing(*map(text, keys)))},
                "it does not list the storages that its table describes, each once",
            )
            for keys in ("", "01", "00")
        ),
        ({"pickled": program(EMPTY_TUPLE)}, "it holds no table of tensors"),
        (
            {"pickled": program(table({"x": vector(b"N"), "y": vector(b"N", elements=3)}))},
            "it describes one storage in two ways",
        ),
        (
            {"pickled": program(table({"x": vector(b"N", elements=1)}))},
            "one of its storages has another length than its table says",
        ),
        (
            {"pickled": program(table({"x": vector(b"N", elements=2**48)}))},
            "it ends before its last storage does",
        ),
    ],
)
def test_pickles_that_do_not_fit_are_one_line(
    path: pathlib.Path, options: dict[str, bytes], fault: str
) -> None:
    """Another magic number, version, byte order, list of storages, table, or length."""
    assert (
        refuse(path, stream(**{"pickled": _ONE_VECTOR, **options}, storages={"0": _TWO})) == fault
    )


@pytest.mark.parametrize("count", [0, 3, -1])
def test_a_storage_of_another_length_is_refused(path: pathlib.Path, count: int) -> None:
    """Its own header, before the elements, says it too."""
    content = stream(_ONE_VECTOR, {"0": _TWO})
    content = content[: -len(_TWO) - 8] + struct.pack("<q", count) + _TWO
    assert refuse(path, content) == "one of its storages has another length than its table says"


# Code, time and memory.


@pytest.mark.parametrize("place", ["magic", "version", "facts", "pickled", "keys"])
def test_each_of_the_five_pickles_is_only_read(path: pathlib.Path, place: str) -> None:
    """No call is made, no tuple of 2^60 leaves hashed, compared or shown, whichever it is in."""
    call = pickle.dumps(Caller(os.system, f"touch {path}.ran"), 4)
    for content in (call, program(listing(nest_pairs(60)))):
        options = {"pickled": _ONE_VECTOR, place: content}
        fault = refuse(path, stream(**options, storages={"0": _TWO}))
        assert fault.startswith("it asks for ") == (content is call)
        assert len(fault) < 100
    assert [other.name for other in path.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(
    "start",
    [
        b"\x80\x02X" + struct.pack("<I", 2**31),
        stream(_ONE_VECTOR, {}, keys=b"\x80\x02X\xff\xff\xff\xff"),
    ],
    ids=["first", "last"],
)
def test_a_pickle_of_any_size_is_not_read(path: pathlib.Path, start: bytes) -> None:
    """A text of two gigabytes, in a file that has them."""
    path.write_bytes(start)
    os.truncate(path, 2**32 + 2**20)
    tracemalloc.start()
    try:
        assert refuse_file(path).startswith("its table is damaged")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
