"""Files of torch: those that torch wrote are read, and what is no such file is one line."""

import itertools
import pathlib
import struct
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest

from export.safetensors_file import TensorFileError, TensorInfo
from export.torch_file import TorchFile
from tests.export.torch_files import (
    DATA_FOLDER,
    DTYPES,
    LAYOUTS,
    number,
    program,
    read_file,
    rebuild,
    refuse_file,
    sizes,
    storage,
    stream,
    table,
    vector,
    write_archive,
)

_ONE_VECTOR: Final = program(table({"x": vector()}))


# Files that torch wrote (make_torch_files.py).


@pytest.mark.parametrize("file", ["dtypes.bin", "dtypes-legacy.bin"])
def test_every_dtype_is_read(file: str) -> None:
    """0, 1, 2 come back in the dtype that torch stored them in; as booleans, 0, 1, 1."""
    tensors = read_file(DATA_FOLDER / file)
    assert {name: found.dtype.name for name, found in tensors.items()} == DTYPES
    assert {name: found.astype(np.float64).tolist() for name, found in tensors.items()} == {
        name: [0, 1, 1 if name == "BOOL" else 2] for name in DTYPES
    }


@pytest.mark.parametrize("file", ["layouts.bin", "layouts-legacy.bin"])
def test_every_layout_comes_back_in_c_order(file: str) -> None:
    """Views of one storage, expanded, of no dimension, empty, a parameter."""
    tensors = read_file(DATA_FOLDER / file)
    assert tensors.keys() == LAYOUTS.keys()
    for name, found in tensors.items():
        assert found.flags.c_contiguous, name
        np.testing.assert_array_equal(found, LAYOUTS[name], strict=True)


@pytest.mark.parametrize("name", ["gpt2.bin", "gpt2-legacy.bin"])
def test_buffers_and_the_tied_head_are_listed(name: str) -> None:
    """The table tells dtype and shape before anything is read."""
    path = DATA_FOLDER / name
    with path.open("rb") as file:
        tensors = TorchFile(path, file).tensors
    assert tensors["transformer.h.0.attn.bias"] == TensorInfo("BOOL", (1, 1, 3, 3))
    assert tensors["transformer.h.0.attn.masked_bias"] == TensorInfo("F32", ())
    assert tensors["lm_head.weight"] == TensorInfo("F32", (5, 4))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("whole-model", "it asks for torch.nn.modules.linear.Linear, which no state dict needs"),
        ("complex", "it asks for torch.ComplexFloatStorage, which no state dict needs"),
        ("float8", "it asks for torch._utils._rebuild_tensor_v3, which no state dict needs"),
    ],
)
def test_other_files_of_torch_are_refused_by_name(name: str, fault: str) -> None:
    """A pickled module, numbers that are no weights."""
    assert refuse_file(DATA_FOLDER / f"{name}.bin").startswith(fault)


# Files made by hand, in the format since 1.6 and in the one before.

_TWO: Final = struct.pack("<2f", 1.5, -2)
_WHOLE: Final[Mapping[str, Callable[[pathlib.Path], object]]] = {
    "archive": lambda path: write_archive(path, _ONE_VECTOR, {"0": _TWO}),
    "stream": lambda path: path.write_bytes(
        stream(program(table({"x": vector(b"N")})), {"0": _TWO})
    ),
}


@pytest.mark.parametrize("form", _WHOLE)
def test_a_file_cut_anywhere_is_one_line(tmp_path: pathlib.Path, form: str) -> None:
    """Every beginning: in each record, pickle, length and storage, and in the directory."""
    path = tmp_path / "x.bin"
    _WHOLE[form](path)
    assert read_file(path)["x"].tolist() == [1.5, -2]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refuse_file(path)


def test_what_is_neither_format_is_told_as_that(tmp_path: pathlib.Path) -> None:
    """Here JSON."""
    (tmp_path / "x.bin").write_text("[1, 2]")
    assert refuse_file(tmp_path / "x.bin").startswith("it is neither a zip archive nor a pickle")


@pytest.mark.parametrize("form", _WHOLE)
def test_a_file_with_any_byte_changed_raises_nothing_else(
    tmp_path: pathlib.Path, form: str
) -> None:
    """It is refused, or nothing depends on the byte; a stream has no checksum of its elements."""
    path = tmp_path / "x.bin"
    _WHOLE[form](path)
    whole = path.read_bytes()
    flips = (0x01, 0xFF) if form == "archive" else (0xFF,)
    for place, flip in itertools.product(range(len(whole)), flips):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            found = read_file(path)
            assert form == "stream" or found["x"].tolist() == [1.5, -2]
        except TensorFileError as error:
            assert "\n" not in str(error)


# Tensors against their storages.


@pytest.mark.parametrize(
    ("view", "fault"),
    [
        ((0, [3], [1]), "x reaches beyond its storage"),
        ((1, [2], [1]), "x reaches beyond its storage"),
        ((0, [2, 2], [1, 1]), "x reaches beyond its storage"),
        ((3, [0], [1]), "x reaches beyond its storage"),
        ((0, [2], []), "x has more or fewer strides than sizes"),
        ((0, [2**40], [0]), "x claims 1.1e+12 elements, more than its file can hold"),
        ((0, [0, 2**40], [1, 1]), "x claims 1.1e+12 elements, more than its file can hold"),
    ],
)
def test_a_view_that_its_storage_does_not_hold_is_refused(
    tmp_path: pathlib.Path, view: tuple[int, list[int], list[int]], fault: str
) -> None:
    """Too long, too far on, unequal counts, or two floats repeated to four terabytes."""
    offset, shape, strides = view
    tensor = rebuild(storage("F32", "0", 2), number(offset), sizes(shape), sizes(strides))
    path = write_archive(tmp_path / "x.bin", program(table({"x": tensor})))
    tracemalloc.start()
    try:
        assert refuse_file(path) == fault
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("storages", "fault"),
    [
        ({}, "the storage of x is missing"),
        ({"1": bytes(8)}, "the storage of x is missing"),
        ({"0": bytes(7)}, "the storage of x is too short for its elements"),
    ],
)
def test_a_storage_that_is_not_there_whole_is_told(
    tmp_path: pathlib.Path, storages: dict[str, bytes], fault: str
) -> None:
    """Missing, under another key, one byte short."""
    assert refuse_file(write_archive(tmp_path / "x.bin", _ONE_VECTOR, storages)) == fault


@pytest.mark.parametrize("key", ["../../secret", "/etc/passwd", "..\\x", "", "data.pkl", "\0"])
def test_a_storages_key_is_no_path(tmp_path: pathlib.Path, key: str) -> None:
    """It is looked up among the names in the archive, and nowhere else."""
    (tmp_path / "secret").write_bytes(bytes(8))
    (tmp_path / "a").mkdir()
    path = write_archive(tmp_path / "a" / "x.bin", program(table({"x": vector(key=key)})))
    assert refuse_file(path) == "the storage of x is missing"
