"""What every kind of weights file is to the rest: tensors by name, each read when asked for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

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


class TensorFileError(Exception):
    """The file is not what its name says, or is damaged; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor before it is read."""

    dtype: str  # as safetensors names it; one that is not in DTYPES cannot be read
    shape: Shape


class TensorFile(Protocol):
    """Tensors under the names that they are stored with."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Every tensor, in the order of the file."""
        ...

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor in its own dtype, in rows one after the other (C order).

        Raises:
            TensorFileError: if it is damaged.
            OSError: if the file cannot be read.
        """
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
