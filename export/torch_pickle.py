"""Reads the pickle in a torch file: which tensor lies where. Runs nothing.

This is not Python's unpickler. It knows the opcodes that torch's own writers use, looks no name up
and calls nothing; the few names that rebuilding tensors takes stand for what they would have made.
(Python's unpickler with a `find_class` of its own is not enough: BUILD sets the fields of frozen
dataclasses, a memo number in 6 bytes takes 6 GB, and to hash a key of nested tuples in 200 bytes
takes for ever. To see such a key beforehand takes a stack machine again.) Here keys of tables are
text, so no hash is slow and no comparison deep; every opcode makes at most one small object, so the
memory is bounded by the pickle's size.
"""

import pickletools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from export.errors import list_some
from export.safetensors_file import Shape, TensorFileError

# torch's storage classes -> the dtype as safetensors names it.
_STORAGES: Final[Mapping[str, str]] = {
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "DoubleStorage": "F64",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}
_MOST_DIMENSIONS: Final = 8
_LARGEST_COUNT: Final = 2**48  # of elements; the products of a few stay small integers


@dataclass(frozen=True, slots=True)
class TorchStorage:
    """A run of elements in a file; several tensors may share it."""

    dtype: str
    key: str
    elements: int


@dataclass(frozen=True, slots=True)
class StridedTensor:
    """A view of a storage, counted in elements."""

    storage: TorchStorage
    offset: int
    shape: Shape
    strides: Shape

    @property
    def span(self) -> int:
        """Elements from the first to the last one of the view, both counted; 0 if it is empty."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True, slots=True)
class _Name:
    """A global name that the pickle asks for; it is never looked up."""

    module: str
    name: str


_ORDERED_DICT: Final = _Name("collections", "OrderedDict")
_REBUILD_TENSOR: Final = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER: Final = _Name("torch._utils", "_rebuild_parameter")
_NAMES: Final = frozenset(
    {
        _ORDERED_DICT,
        _REBUILD_TENSOR,
        _REBUILD_PARAMETER,
        *(_Name("torch", storage) for storage in _STORAGES),
    }
)


def find_tensors(table: object) -> dict[str, StridedTensor]:
    """Return the tensors of what a pickle describes; what else stands in its table is left out.

    A table under the key `state_dict` is taken for the table.

    Raises:
        TensorFileError: if it is no table, or has no tensors.
    """
    if isinstance(table, dict) and isinstance(table.get("state_dict"), dict):
        table = table["state_dict"]
    if not isinstance(table, dict):
        raise TensorFileError("it holds no table of tensors")
    tensors = {name: value for name, value in table.items() if isinstance(value, StridedTensor)}
    if not tensors:
        entries = list_some([ascii(name) for name in table]) or "nothing"
        raise TensorFileError(f"its table holds no tensors, but {entries}")
    return tensors


def run_pickle(content: bytes | BinaryIO) -> tuple[object, Mapping[str, TorchStorage]]:
    """Return what a pickle describes, and by their keys the whole storages that it refers to.

    Of a stream only this pickle is read; all of it must be in memory, or bounded otherwise.

    Raises:
        TensorFileError: if the pickle is damaged, or needs more than tensors take.
    """
    machine = _Machine()
    try:
        with warnings.catch_warnings():
            # pickletools (Python 3.11) reads a name with a backslash as a string literal.
            warnings.simplefilter("ignore", DeprecationWarning)
            return machine.run(content), machine.storages
    except (ValueError, IndexError, KeyError, UnicodeError) as error:  # pickletools', and our pops
        raise TensorFileError(f"its table is damaged: {error}") from error


class _Machine:
    """The pickle's stack machine, as `pickletools` documents it, in the part that torch uses."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        self.storages: dict[str, TorchStorage] = {}

    def run(self, content: bytes | BinaryIO) -> object:
        """Return the object that the pickle describes."""
        for opcode, argument, _ in pickletools.genops(content):
            self._step(opcode.name, argument)
        return self._stack.pop()

    def _step(self, opcode: str, argument: object) -> None:
        match opcode:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                self._stack.append(argument)
            case "BINUNICODE" | "SHORT_BINUNICODE":
                self._stack.append(argument)
            case "NONE" | "NEWFALSE" | "NEWTRUE":
                self._stack.append(None if opcode == "NONE" else opcode == "NEWTRUE")
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                index = argument if isinstance(argument, int) else len(self._memo)
                self._memo[index] = self._stack[-1]
            case "BINGET" | "LONG_BINGET" if isinstance(argument, int):
                self._stack.append(self._memo[argument])
            case "MARK":
                self._marks.append(len(self._stack))
            case _:
                self._put_together(opcode, argument)

    def _put_together(self, opcode: str, argument: object) -> None:
        match opcode:
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = 0 if opcode == "EMPTY_TUPLE" else int(opcode[-1])
                self._stack.append(tuple(self._pop(size)))
            case "TUPLE":
                self._stack.append(tuple(self._pop_marked()))
            case "EMPTY_LIST":
                self._stack.append([])
            case "EMPTY_DICT":
                self._stack.append({})
            case "APPEND" | "APPENDS":
                self._extend(self._pop(1) if opcode == "APPEND" else self._pop_marked())
            case "SETITEM" | "SETITEMS":
                self._set(self._pop(2) if opcode == "SETITEM" else self._pop_marked())
            case "GLOBAL":
                self._stack.append(_check_name(*str(argument).split(" ", 1)))
            case "STACK_GLOBAL":
                self._stack.append(_check_name(*self._pop(2)))
            case "BINPERSID":
                self._stack.append(self._find_storage(self._stack.pop()))
            case "REDUCE":
                self._stack.append(_rebuild(*self._pop(2)))
            case "BUILD":
                self._stack.pop()  # the `_metadata` of a state dict: versions of its modules
            case _:
                raise TensorFileError(f"it uses the opcode {opcode}, which no state dict needs")

    def _pop_marked(self) -> list[object]:
        return self._pop(len(self._stack) - self._marks.pop())

    def _pop(self, count: int) -> list[object]:
        start = len(self._stack) - count
        if start < 0 or count < 0:
            raise IndexError("its stack is too short")
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _extend(self, items: list[object]) -> None:
        sequence = self._stack[-1]
        if not isinstance(sequence, list):
            raise TensorFileError("it appends to something that is not a list")
        sequence += items

    def _set(self, items: list[object]) -> None:
        table = self._stack[-1]
        if not isinstance(table, dict):
            raise TensorFileError("it sets entries of something that is not a table")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, str):  # what has no name is no weight
                table[key] = value

    def _find_storage(self, identity: object) -> TorchStorage:
        """Return what a persistent id stands for: ("storage", class, key, device, elements).

        Before torch 1.6 None comes last. (Before 0.4, older than GPT-2, a part of the storage did.)
        """
        match identity:
            case ("storage", _Name("torch", name), str(key), _, elements, *nothing) if nothing in (
                [],
                [None],
            ):
                storage = TorchStorage(_STORAGES[name], key, _as_count(elements))
                if self.storages.setdefault(key, storage) != storage:
                    raise TensorFileError("it describes one storage in two ways")
                return storage
        raise TensorFileError("it refers to something that is not a storage")


def _check_name(module: object, name: object) -> _Name:
    if not isinstance(module, str) or not isinstance(name, str):
        raise TensorFileError("it asks for a name that is not text")
    found = _Name(module, name)
    if found not in _NAMES:
        raise TensorFileError(f"it asks for {module}.{name}, which no state dict needs")
    return found


def _rebuild(function: object, arguments: object) -> object:
    """Return what torch's function would have made of these arguments."""
    match arguments:
        case () if function == _ORDERED_DICT:
            return {}
        case (TorchStorage() as storage, offset, tuple(shape), tuple(strides), *_) if (
            function == _REBUILD_TENSOR
        ):
            return StridedTensor(storage, _as_count(offset), _as_sizes(shape), _as_sizes(strides))
        case (StridedTensor() as tensor, *_) if function == _REBUILD_PARAMETER:
            return tensor
    raise TensorFileError("it rebuilds something that is not a tensor")


def _as_sizes(values: tuple[object, ...]) -> Shape:
    if len(values) > _MOST_DIMENSIONS:
        raise TensorFileError(f"one of its tensors has {len(values)} dimensions")
    return tuple(_as_count(value) for value in values)


def _as_count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_COUNT:  # True is no count
        raise TensorFileError("one of its tensors has a size, stride or offset that is not a count")
    return value
