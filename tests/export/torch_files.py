"""Owns what is known of the files in tests/export/data, and files of that format made by hand."""

import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from export.safetensors_file import DTYPES as NUMPY_DTYPES
from export.safetensors_file import TensorFileError
from export.torch_file import TorchFile
from tests.checkpoints import CheckpointDtype

DATA_FOLDER: Final = pathlib.Path(__file__).with_name("data")

# dtypes.bin: each dtype as safetensors names it, and in torch's and NumPy's word.
DTYPES: Final[Mapping[str, str]] = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F64": "float64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}

_BASE: Final = np.arange(24, dtype=np.float32)

# layouts.bin; the first five are views of one storage.
LAYOUTS: Final[Mapping[str, npt.NDArray[Any]]] = {
    "whole": _BASE,
    "rows": _BASE.reshape(4, 6)[1:3],
    "columns": _BASE.reshape(4, 6)[:, 2:4],
    "transposed": _BASE.reshape(4, 6).T,
    "permuted": _BASE.reshape(2, 3, 4).transpose(2, 0, 1),
    "expanded": np.full((2, 3), 7, np.float32),
    "scalar": np.array(3.5, np.float32),
    "empty": np.zeros((0, 4), np.float32),
    "parameter": np.ones(2, np.float32),
}

# Pickles, put together of opcodes as `pickletools` documents them.

EMPTY_TUPLE: Final = b")"
REDUCE: Final = b"R"
STOP: Final = b"."

_STORAGES: Final = {
    "F32": "FloatStorage",
    "F16": "HalfStorage",
    "BF16": "BFloat16Storage",
    "F64": "DoubleStorage",
    "I64": "LongStorage",
}


def glob(module: str, name: str) -> bytes:
    """Ask for a global name."""
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    """Push a string."""
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def number(value: int) -> bytes:
    """Push an integer of any size up to 255 bytes."""
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def group(*items: bytes) -> bytes:
    """Push a tuple."""
    return b"(" + b"".join(items) + b"t"


def sizes(values: Iterable[int]) -> bytes:
    """Push a tuple of integers."""
    return group(*(number(value) for value in values))


def table(entries: Mapping[str, bytes]) -> bytes:
    """Push a dictionary."""
    return b"}(" + b"".join(text(name) + value for name, value in entries.items()) + b"u"


def storage(dtype: str, key: str, elements: int, *part: bytes) -> bytes:
    """Push what stands for a storage; `part` is what the format before 1.6 has besides."""
    kind = glob("torch", _STORAGES[dtype])
    return group(text("storage"), kind, text(key), text("cpu"), number(elements), *part) + b"Q"


def rebuild(*arguments: bytes) -> bytes:
    """Push a tensor, as torch._utils._rebuild_tensor_v2 would make it."""
    hooks = glob("collections", "OrderedDict") + EMPTY_TUPLE + REDUCE
    return glob("torch._utils", "_rebuild_tensor_v2") + group(*arguments, b"\x89", hooks) + REDUCE


def vector(*part: bytes, key: str = "0", elements: int = 2) -> bytes:
    """Push a whole float32 storage as a tensor of one axis; for `part` see `storage`."""
    return rebuild(storage("F32", key, elements, *part), number(0), sizes([elements]), sizes([1]))


def nest_pairs(depth: int) -> bytes:
    """Push a tuple of two of the same tuple, `depth` times over: 2^depth leaves."""
    return EMPTY_TUPLE + b"q\x00h\x00\x86q\x00" * depth


def listing(*items: bytes) -> bytes:
    """Push a list."""
    return b"](" + b"".join(items) + b"e"


def program(*parts: bytes) -> bytes:
    """Return a whole pickle of protocol 2."""
    return b"\x80\x02" + b"".join(parts) + STOP


class Caller:
    """Pickles as a call, which Python's unpickler would make."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._call


# Archives.


def write_archive(
    path: pathlib.Path,
    pickled: bytes,
    storages: Mapping[str, bytes] | None = None,
    *,
    extra: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
) -> pathlib.Path:
    """Write data.pkl, the storages by key (default: two floats as "0"), and `extra` records."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, content in ({"0": bytes(8)} if storages is None else storages).items():
            archive.writestr(f"archive/data/{key}", content)
        for name, content in (extra or {}).items():
            archive.writestr(name, content)
    return path


def lay_out(
    tensors: Mapping[str, npt.NDArray[Any]], *part: bytes, dtype: CheckpointDtype = "float32"
) -> tuple[bytes, dict[str, bytes]]:
    """Return a pickled table of tensors, rounded to `dtype`, and each one's storage by key."""
    label = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}[dtype]
    entries, storages = {}, {}
    for key, (name, tensor) in enumerate(tensors.items()):
        strides = [stride // tensor.itemsize for stride in np.ascontiguousarray(tensor).strides]
        entries[name] = rebuild(
            storage(label, str(key), tensor.size, *part),
            number(0),
            sizes(tensor.shape),
            sizes(strides[: tensor.ndim]),
        )
        storages[str(key)] = tensor.astype(NUMPY_DTYPES[label]).tobytes()
    return program(table(entries)), storages


def write_state_dict(
    path: pathlib.Path,
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    dtype: CheckpointDtype = "float32",
) -> None:
    """Write tensors, rounded to `dtype`, each in a storage of its own."""
    write_archive(path, *lay_out(tensors, dtype=dtype))


# The format before torch 1.6: five pickles, then the storages.

FACTS: Final = program(table({"protocol_version": number(1001), "little_endian": b"\x88"}))


def stream(
    pickled: bytes,
    storages: Mapping[str, bytes],
    *,
    magic: bytes = program(number(0x1950A86A20F9469CFC6C)),
    version: bytes = program(number(1001)),
    facts: bytes = FACTS,
    keys: bytes | None = None,
) -> bytes:
    """Return a whole file; `storages` are float32 elements by key, of which `keys` is the list."""
    listed = keys if keys is not None else program(listing(*(text(key) for key in storages)))
    counted = [struct.pack("<q", len(content) // 4) + content for content in storages.values()]
    return b"".join([magic, version, facts, pickled, listed, *counted])


# What reading gives.


def read_file(path: pathlib.Path) -> dict[str, npt.NDArray[Any]]:
    """Return every tensor of a file."""
    with path.open("rb") as file:
        opened = TorchFile(path, file)
        return {name: opened.read(name) for name in opened.tensors}


def refuse_file(path: pathlib.Path) -> str:
    """Return the one line that a file is refused by, at the latest when its tensors are read."""
    with pytest.raises(TensorFileError) as caught:
        read_file(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
