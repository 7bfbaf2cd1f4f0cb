"""Safetensors files: damage of any kind is one line, and the data lies where the header says."""

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.errors import CheckpointError
from export.safetensors_file import SafetensorsFile, TensorFileError, TensorInfo
from tests.checkpoints import write_checkpoint
from tests.export.conversions import SMALLEST_SHAPE


def join(header: object, data: bytes, *, size: int | None = None) -> bytes:
    """Return a safetensors file; `size` may lie about the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def test_tensors_are_read_from_where_the_header_says(tmp_path: pathlib.Path) -> None:
    """In the file's order, of any shape, one empty; `__metadata__` is no tensor."""
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "F16", "shape": [2, 1], "data_offsets": [4, 8]},
        "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "c": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [8, 8]},
        "d": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [8, 9]},
    }
    path = tmp_path / "x.safetensors"
    data = np.array(1.5, "<f4").tobytes() + np.array([2, -3], "<f2").tobytes() + b"x"
    path.write_bytes(join(header, data))
    with path.open("rb") as opened:
        file = SafetensorsFile(path, opened)
        assert list(file.tensors.items()) == [
            ("b", TensorInfo("F16", (2, 1))),
            ("a", TensorInfo("F32", ())),
            ("c", TensorInfo("BF16", (0, 3))),
            ("d", TensorInfo("F8_E4M3", (1,))),
        ]
        assert [file.read(name).tolist() for name in "bac"] == [[[2.0], [-3.0]], 1.5, []]
        with pytest.raises(TensorFileError, match="dtype F8_E4M3 is not known"):
            file.read("d")


def test_a_file_that_shrinks_after_it_was_opened_is_told(tmp_path: pathlib.Path) -> None:
    """A mapped file would end the process there."""
    path = tmp_path / "x.safetensors"
    header = {"a": {"dtype": "F32", "shape": [10_000], "data_offsets": [0, 40_000]}}
    path.write_bytes(join(header, bytes(40_000)))
    with path.open("rb") as opened:
        file = SafetensorsFile(path, opened)
        path.write_bytes(b"")
        with pytest.raises(TensorFileError, match="the file ends too early"):
            file.read("a")


def _cut_at(share: float) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: round(share * len(content))])

    return damage


def _replace_header(
    header: object, size: int | None = None, data: bytes | None = None
) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        kept = split(path.read_bytes())[1] if data is None else data
        path.write_bytes(join(header, kept, size=size))

    return damage


def _move(name: str, offsets: list[int]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        header, data = split(path.read_bytes())
        header[name]["data_offsets"] = offsets
        path.write_bytes(join(header, data))

    return damage


_DAMAGES: Mapping[str, Callable[[pathlib.Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut-in-the-length": lambda path: path.write_bytes(path.read_bytes()[:7]),
    "cut-in-the-header": _cut_at(0.2),
    "one-byte-short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "header-not-json": _replace_header(b"{" * 64),
    "header-empty": _replace_header({}),
    "header-deep": _replace_header(b"[" * 100_000),
    "header-of-2^64-bytes": _replace_header({}, size=2**64 - 1),
    "overlap": _move("transformer.wpe.weight", [0, 48]),
    "negative": _move("transformer.wpe.weight", [-48, 0]),
    "beyond-the-end": _move("transformer.wpe.weight", [10**9, 10**9 + 48]),
    "entry-a-list": _replace_header(b'{"wte.weight": ["F32", [0], [0, 0]]}', data=b""),
    "shape-beyond-the-file": _replace_header(
        {"wte.weight": {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}}, data=b""
    ),
    "a-pickle": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
}


@pytest.mark.parametrize("damage", _DAMAGES.values(), ids=_DAMAGES)
def test_a_damaged_file_is_one_line(
    tmp_path: pathlib.Path, damage: Callable[[pathlib.Path], object]
) -> None:
    """No damage ends in another exception or in more than a line."""
    write_checkpoint(tmp_path, SMALLEST_SHAPE, tokenizer=None)
    damage(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError) as caught, open_checkpoint(tmp_path) as checkpoint:
        raise CheckpointError(tmp_path, checkpoint.find_faults(read_config(tmp_path)))
    assert str(caught.value).startswith(f"{tmp_path}: model.safetensors cannot be read: ")
    assert "\n" not in str(caught.value)
    assert "deserializing" not in str(caught.value)  # the library's words are for programmers


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it ends within its header, after 0 bytes"),
        (b"<html>", "it ends within its header, after 6 bytes"),
        (join({}, b"", size=40), "it ends within its header, after 10 bytes"),
        (join({}, b"abc"), "it has 13 bytes, more or fewer than its header says"),
        (
            b"PK\3\4\0\0\1\0ab",
            "it is not a safetensors file, its header would have 281475044035408 bytes",
        ),
        (join(b"{]", b""), r"its header is damaged \(.* at line 1 column 2\)"),
    ],
    ids=["empty", "short", "in the header", "too long", "a zip archive", "not JSON"],
)
def test_damage_is_told_with_what_to_do(tmp_path: pathlib.Path, content: bytes, told: str) -> None:
    """A download that broke off is the usual case."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with path.open("rb") as opened, pytest.raises(TensorFileError) as caught:
        SafetensorsFile(path, opened)
    assert re.fullmatch(rf"{told}.*; copy or download it again", str(caught.value))
