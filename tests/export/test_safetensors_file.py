"""Safetensors files: damage of any kind is one line, and the data lies where the header says."""

import json
import pathlib
import re
from collections.abc import Mapping

import numpy as np
import pytest

from export.safetensors_file import SafetensorsFile, TensorFileError, TensorInfo


def join(header: object, data: bytes, *, size: int | None = None) -> bytes:
    """Return a safetensors file; `size` may lie about the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


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


def _entry(offsets: list[int], shape: tuple[int, ...] = (3,)) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": offsets}


_EMPTY = b'{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}'
_PAIR = {"a": _entry([0, 12]), "b": _entry([12, 24])}
_DAMAGES: Mapping[str, tuple[bytes, str]] = {
    "empty": (b"", "it ends within its header, after 0 bytes"),
    "a web page": (b"<html>", "it ends within its header, after 6 bytes"),
    "cut in the header": (join({}, b"", size=40), "it ends within its header, after 10 bytes"),
    "one byte short": (join(_PAIR, bytes(23)), "it has .* bytes, more or fewer than its header"),
    "too long": (join({}, b"abc"), "it has 13 bytes, more or fewer than its header says"),
    "a zip archive": (
        b"PK\3\4\0\0\1\0ab",
        "it is not a safetensors file, its header would have 281475044035408 bytes",
    ),
    "a header of 2^64 bytes": (
        join({}, b"", size=2**64 - 1),
        "it is not a safetensors file, its header would have 18446744073709551615 bytes",
    ),
    "not JSON": (join(b"{]", b""), r"its header is damaged \(.* at line 1 column 2\)"),
    "deep": (join(b"[" * 100_000, b""), r"its header is damaged \(.*\)"),
    "overlap": (join({**_PAIR, "b": _entry([0, 12])}, bytes(12)), r"its header is damaged \(.*\)"),
    "negative": (join({"a": _entry([-12, 0])}, bytes(12)), r"its header is damaged \(.*\)"),
    "beyond the end": (
        join({**_PAIR, "b": _entry([10**9, 10**9 + 12])}, bytes(24)),
        r"its header is damaged \(.*\)",
    ),
    "a name given twice": (
        join(b'{"a": %s, "a": %s}' % (_EMPTY, _EMPTY), b""),
        'its header has the key "a" twice',
    ),
    "an entry that is a list": (
        join(b'{"a": ["F32", [0], [0, 0]]}', b""),
        "its header holds a list where an object belongs",
    ),
    "a shape beyond the file": (
        join({"a": _entry([0, 0], (0, 2**62))}, b""),
        r"a claims 4\.6e\+18 elements, more than its file can hold",
    ),
}


@pytest.mark.parametrize(("content", "told"), _DAMAGES.values(), ids=_DAMAGES)
def test_damage_is_one_line_with_what_to_do(
    tmp_path: pathlib.Path, content: bytes, told: str
) -> None:
    """A download that broke off is the usual case; the library's words are for programmers."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with path.open("rb") as opened, pytest.raises(TensorFileError) as caught:
        SafetensorsFile(path, opened)
    assert re.match(told, str(caught.value))
    assert str(caught.value).endswith(("; copy or download it again", "belongs", "can hold"))
    assert not re.search("\n|deserializing", str(caught.value))
