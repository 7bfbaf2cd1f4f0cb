"""Reads one `.safetensors` file: the library checks its header, the data is read from here.

Format: https://github.com/huggingface/safetensors#format
"""

import math
from pathlib import Path
from typing import Any, BinaryIO, Final

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from export.small_files import ReadError, parse_json
from export.tensor_file import (
    LARGEST_TABLE,
    TensorFileError,
    TensorInfo,
    read_flat,
    refuse_larger,
)

_LENGTH_SIZE: Final = 8  # bytes, before the header: its length
_NOT_COVERED: Final = "not fully covered"  # safetensors 0.8's words for a wrong size
_ADVICE: Final = "copy or download it again"


class SafetensorsFile:
    """The tensors of one open file by name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the header of `file`, which is `path` opened.

        Raises:
            TensorFileError: if the file is not in this format, or shorter than its header says.
            OSError: if it cannot be read.
        """
        self._file = file
        length = int.from_bytes(file.read(_LENGTH_SIZE), "little")
        size = path.stat().st_size
        _check_length(length, size)
        try:
            # Checks dtypes, shapes and places against each other and against the file's size.
            with safe_open(path, framework="numpy"):
                pass
        except SafetensorError as error:
            raise TensorFileError(_explain(error, size)) from error
        try:
            header = parse_json(file.read(length))
        except ReadError as error:  # what only the library takes, such as a name given twice
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
        """Return one tensor in its own dtype.

        Raises:
            TensorFileError: if the file has become shorter than its header says.
            OSError: if it cannot be read.
        """
        info = self.tensors[name]
        count = math.prod(info.shape)
        return read_flat(self._file, self._starts[name], count, info.dtype).reshape(info.shape)


def _check_length(length: int, size: int) -> None:
    """Refuse a header that is longer than any, or than the file.

    Raises:
        TensorFileError: if it is.
    """
    if length > LARGEST_TABLE and size >= _LENGTH_SIZE:
        fault = f"it is no safetensors file, its header would have {length} bytes"
        raise TensorFileError(f"{fault}; {_ADVICE}")
    if size < _LENGTH_SIZE + length or size < _LENGTH_SIZE:
        raise TensorFileError(f"it ends within its header, after {size} bytes; {_ADVICE}")


def _explain(error: SafetensorError, size: int) -> str:
    """Return what the library (0.8.0) found, after its own prefix, in words for people."""
    found = str(error).rpartition("header: ")[2]
    if _NOT_COVERED in found:
        return f"it has {size} bytes, more or fewer than its header says; {_ADVICE}"
    return f"its header is damaged ({found}); {_ADVICE}"
