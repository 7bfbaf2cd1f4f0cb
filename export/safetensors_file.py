"""The interface of files of weights, and safetensors files.

The safetensors library checks the header, the data is read from here.
Format: https://github.com/huggingface/safetensors#format
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from export.small_files import ReadError, parse_json

Shape = tuple[int, ...]

# The dtypes that can be read, by safetensors' names. Those of weights come first; the others are
# those of mask buffers.
DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}

# A table of ten thousand tensors has 2 MB in any of the formats. What is larger is no table, and
# would take many times its size once read.
LARGEST_TABLE: Final = 4 * 2**20

_LENGTH_SIZE: Final = 8  # bytes, before the header: its length
_NOT_COVERED: Final = "not fully covered"  # safetensors 0.8's words for a wrong size
_ADVICE: Final = "copy or download it again"


class TensorFileError(Exception):
    """The file is damaged, or of another kind; the text says why in one sentence."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor before it is read."""

    dtype: str  # as safetensors names it; one that is not in DTYPES cannot be read
    shape: Shape


class TensorFile(Protocol):
    """Tensors under the names that they are stored with.

    What opens or reads one raises TensorFileError if the file is damaged, and OSError if it cannot
    be read.
    """

    tensors: dict[str, TensorInfo]  # in the order of the file

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in rows one after the other (C order)."""
        ...


def read_flat(file: BinaryIO, start: int, count: int, dtype: str) -> NDArray[Any]:
    """Return `count` elements that begin at byte `start`.

    They are read, not mapped: mapped pages would count as resident until the file is closed.

    Raises:
        TensorFileError: if the file ends before they do, or `dtype` is not in DTYPES.
        OSError: if the file cannot be read.
    """
    if dtype not in DTYPES:
        raise TensorFileError(f"its dtype {dtype} is not known")
    flat = np.empty(count, DTYPES[dtype])
    file.seek(start)
    if file.readinto(flat.view(np.uint8).data) != flat.nbytes:  # type: ignore[attr-defined]
        raise TensorFileError("the file ends too early")
    return flat


def refuse_larger(name: str, info: TensorInfo, file_size: int) -> None:
    """Refuse a tensor that is larger than its file, as strides of 0 and axes of 0 allow.

    Raises:
        TensorFileError: if it is.
    """
    elements = math.prod(max(1, size) for size in info.shape)
    if elements > max(1, file_size):
        raise TensorFileError(f"{name} claims {elements:.2g} elements, more than its file can hold")


class SafetensorsFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the header of `file`, which is `path` opened."""
        self._file = file
        length = int.from_bytes(file.read(_LENGTH_SIZE), "little")
        size = path.stat().st_size
        _check_length(length, size)
        try:
            # Checks dtypes, shapes and offsets against each other and against the file's size.
            with safe_open(path, framework="numpy"):
                pass
        except SafetensorError as error:
            raise TensorFileError(_explain(error, size)) from error
        try:
            header = parse_json(file.read(length))
        except ReadError as error:  # what only the library accepts, such as a name given twice
            raise TensorFileError(f"its header {error.reason}; {_ADVICE}") from error
        header.pop("__metadata__", None)
        self.tensors: dict[str, TensorInfo] = {}
        self._starts: dict[str, int] = {}
        for name, entry in header.items():
            if not isinstance(entry, dict):  # the library (0.8.0) also takes a list of the fields
                raise TensorFileError("its header holds a list where an object belongs")
            self.tensors[name] = TensorInfo(entry["dtype"], tuple(entry["shape"]))
            self._starts[name] = _LENGTH_SIZE + length + entry["data_offsets"][0]
            refuse_larger(name, self.tensors[name], size)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype."""
        info = self.tensors[name]
        count = math.prod(info.shape)
        return read_flat(self._file, self._starts[name], count, info.dtype).reshape(info.shape)


def _check_length(length: int, size: int) -> None:
    """Refuse a header that is longer than any, or than the file."""
    if length > LARGEST_TABLE and size >= _LENGTH_SIZE:
        fault = f"it is not a safetensors file, its header would have {length} bytes"
        raise TensorFileError(f"{fault}; {_ADVICE}")
    if size < _LENGTH_SIZE + length or size < _LENGTH_SIZE:
        raise TensorFileError(f"it ends within its header, after {size} bytes; {_ADVICE}")


def _explain(error: SafetensorError, size: int) -> str:
    """Return what the library (0.8.0) found, without its own prefix, in plain words."""
    found = str(error).rpartition("header: ")[2]
    if _NOT_COVERED in found:
        return f"it has {size} bytes, more or fewer than its header says; {_ADVICE}"
    return f"its header is damaged ({found}); {_ADVICE}"
