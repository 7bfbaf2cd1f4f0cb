"""Files of torch before 1.6: five pickles and raw storages, cut, lying, overfull, with code."""

import os
import pathlib
import pickle
import struct
import tracemalloc
from typing import Final

import pytest

from export.safetensors_file import TensorFileError
from tests.export.torch_files import (
    EMPTY_TUPLE,
    Caller,
    listing,
    number,
    program,
    read_file,
    rebuild,
    refuse_file,
    sizes,
    storage,
    stream,
    table,
    text,
)

_TWO: Final = struct.pack("<2f", 1.5, -2)
_FOUR: Final = struct.pack("<4f", 1, 2, 3, 4)


def view(
    whole: bytes, offset: int = 0, shape: tuple[int, ...] = (2,), strides: tuple[int, ...] = (1,)
) -> bytes:
    """Push a view of a storage."""
    return rebuild(whole, number(offset), sizes(shape), sizes(strides))


def vector(*, key: str = "0", elements: int = 2) -> bytes:
    """Push a whole float32 storage as a tensor of one axis."""
    return view(storage("F32", key, elements, b"N"), shape=(elements,))


_ONE_VECTOR: Final = program(table({"x": vector()}))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return where a test may write its file."""
    return tmp_path / "x.bin"


def refuse(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return refuse_file(path)


def test_a_file_made_by_hand_is_read_as_torchs_are(path: pathlib.Path) -> None:
    """What the tests below damage is whole before; storages lie in the order of their list."""
    tables = program(table({"x": vector(), "y": vector(key="b", elements=4)}))
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
            {"pickled": program(table({"x": vector(), "y": vector(elements=3)}))},
            "it describes one storage in two ways",
        ),
        (
            {"pickled": program(table({"x": vector(elements=1)}))},
            "one of its storages has another length than its table says",
        ),
        (
            {"pickled": program(table({"x": vector(elements=2**48)}))},
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


# Damage.


def test_a_file_cut_anywhere_is_one_line(path: pathlib.Path) -> None:
    """Every beginning, so in each pickle, between them, in a length and in the elements."""
    whole = stream(_ONE_VECTOR, {"0": _TWO})
    for length in range(len(whole)):
        refuse(path, whole[:length])


def test_a_file_with_any_byte_changed_raises_nothing_else(path: pathlib.Path) -> None:
    """It is refused, or an element, a name or a size in it is another."""
    whole = stream(_ONE_VECTOR, {"0": _TWO})
    for place in range(len(whole)):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        try:
            read_file(path)
        except TensorFileError as error:
            assert "\n" not in str(error)


# Code, time and memory, in each of the five pickles.

_PLACES: Final = ("magic", "version", "facts", "pickled", "keys")


@pytest.mark.parametrize("place", _PLACES)
def test_a_call_is_refused_by_name_and_not_made(path: pathlib.Path, place: str) -> None:
    """The magic number is as little to be run as the table."""
    call = pickle.dumps(Caller(os.system, f"touch {path}.ran"), 4)
    fault = refuse(path, stream(**{"pickled": _ONE_VECTOR, place: call}, storages={"0": _TWO}))
    assert fault.startswith("it asks for ")
    assert [other.name for other in path.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize("place", _PLACES)
def test_a_tuple_of_2_to_the_60_leaves_takes_no_time(path: pathlib.Path, place: str) -> None:
    """It is neither hashed, compared nor shown."""
    nested = EMPTY_TUPLE + b"q\x00h\x00\x86q\x00" * 60
    options = {"pickled": _ONE_VECTOR, place: program(listing(nested))}
    assert len(refuse(path, stream(**options, storages={"0": _TWO}))) < 100


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
