"""The pickle in a torch file: what is read of it, and that it can run, fill and stop nothing."""

import os
import pathlib
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from export.safetensors_file import TensorFileError
from export.torch_pickle import StridedTensor, TorchStorage, find_tensors, run_pickle
from tests.export.torch_files import (
    DATA_FOLDER,
    EMPTY_TUPLE,
    REDUCE,
    Caller,
    glob,
    group,
    nest_pairs,
    number,
    program,
    rebuild,
    sizes,
    storage,
    table,
    text,
    vector,
)

_VECTOR = StridedTensor(TorchStorage("F32", "0", 2), 0, (2,), (1,))
_ORDERED_DICT = glob("collections", "OrderedDict")


def read_state_dict(content: bytes) -> dict[str, StridedTensor]:
    return find_tensors(run_pickle(content)[0])


def refuse(content: bytes) -> str:
    """Return the one line that a pickle is refused by."""
    with pytest.raises(TensorFileError) as caught:
        read_state_dict(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def read_stored(name: str) -> bytes:
    with zipfile.ZipFile(DATA_FOLDER / f"{name}.bin") as archive:
        return archive.read(f"{name}/data.pkl")


def test_a_tensor_is_told_by_its_storage_offset_sizes_and_strides() -> None:
    """Here a view of a part."""
    view = rebuild(storage("BF16", "7", 24), number(3), sizes([2, 5]), sizes([10, 2]))
    tensor = StridedTensor(TorchStorage("BF16", "7", 24), 3, (2, 5), (10, 2))
    assert read_state_dict(program(table({"x": view}))) == {"x": tensor}


def test_what_is_no_tensor_is_left_out() -> None:
    """Beside the tensors, or beside a `state_dict`; entries that no text names."""
    numbered = b"}" + number(5) + vector() + b"s"
    entries = {"n": number(1), "t": text("x"), "none": b"N", "list": b"]" + vector() + b"a"}
    weights = table({**entries, "table": numbered, "x": vector()})
    for whole in (weights, table({"epoch": number(3), "state_dict": weights})):
        assert read_state_dict(program(whole)) == {"x": _VECTOR}


# Code.


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("function", [os.system, eval, getattr])
def test_a_call_is_refused_by_name_and_not_made(
    tmp_path: pathlib.Path, function: Callable[..., Any], protocol: int
) -> None:
    """Whatever it is that the pickle calls, alone, within a table and within another call."""
    ran = tmp_path / "ran"
    call = Caller(function, f"__import__('pathlib').Path({str(ran)!r}).touch()")
    for value in (call, {"x": call}, {"x": Caller(os.system, call)}):
        fault = refuse(pickle.dumps(value, protocol))
        assert fault.startswith("it asks for ")
        assert fault.endswith(", which no state dict needs")
    assert not ran.exists()


def test_build_changes_no_tensor() -> None:
    """Python's unpickler would give the sizes of a checked tensor others, by BUILD."""
    state = b"N" + table({"shape": sizes([2**40]), "strides": sizes([0])}) + b"\x86"
    as_list = b"](" + storage("F32", "0", 2) + number(0) + sizes([9]) + sizes([9]) + b"e"
    for built in (state, as_list):
        assert read_state_dict(program(table({"x": vector() + built + b"b"}))) == {"x": _VECTOR}


_WHOLE: Final = storage("F32", "0", 2)
_FLOATS: Final = glob("torch", "FloatStorage")
_NOT_COUNTS: Final = (
    *(b"\x88", number(-1), number(2**62)),
    *(b"G" + struct.pack(">d", 2.0), text("2"), b"N"),
)
_NO_COUNT: Final = "one of its tensors has a size, stride or offset that is not a count"
_NO_NEED: Final = "which no state dict needs"

# What is refused, by the one line that tells it.
_REFUSED: Final[Mapping[str, Sequence[bytes]]] = {
    # Null, a list, a tuple, a number, text, a tensor by itself.
    "it holds no table of tensors": [
        program(value) for value in (b"N", b"]", EMPTY_TUPLE, number(1), text("x"), vector())
    ],
    # A trainer may have saved them under another name.
    "its table holds no tensors, but nothing": [program(table({}))],
    r"its table holds no tensors, but 'model', 'a\nb'": [
        program(table({"model": table({"x": vector()}), "a\nb": number(1)}))
    ],
    # Module and name must both be those of the short list; nothing after a dot is followed.
    **{
        f"it asks for {module}.{name}, {_NO_NEED}": [program(glob(module, name))]
        for module, name in (
            *(("torch._utils", "_rebuild_tensor_v3"), ("torch._utils", "_rebuild_tensor")),
            *(("torch.storage", "FloatStorage"), ("torch", "FloatStorage.__class__")),
            ("torch", "\\R"),  # of which pickletools would warn
        )
    },
    f"it asks for collections.OrderedDict , {_NO_NEED}": [
        program(glob("collections OrderedDict", ""))
    ],
    "it asks for a name that is not text": [b"\x80\x04" + number(1) + number(2) + b"\x93."],
    # Other ways to make an object, to call, to reach a registry, or to fill the memory.
    **{
        f"it uses the opcode {opcode}, {_NO_NEED}": [content + b"."]
        for opcode, content in (
            ("INST", b"(ios\nsystem\n"),
            ("OBJ", b"(" + _ORDERED_DICT + b"o"),
            ("NEWOBJ", _ORDERED_DICT + b")\x81"),
            ("NEWOBJ_EX", _ORDERED_DICT + b")}\x92"),
            ("EXT1", b"\x82\x01"),
            ("PERSID", b"Pabc\n"),
            ("DUP", b"}2"),
            ("EMPTY_SET", b"\x8f"),
            ("FROZENSET", b"(\x91"),
            ("LONG4", b"\x8b" + struct.pack("<i", 1) + b"\x05"),
            ("BYTEARRAY8", b"\x96" + struct.pack("<Q", 1) + b"x"),
            ("NEXT_BUFFER", b"\x97"),
        )
    },
    # The allowed names are no functions either: only the calls that torch writes are known.
    "it rebuilds something that is not a tensor": [
        program(function, arguments, REDUCE)
        for function, arguments in (
            (_ORDERED_DICT, group(b"]")),
            (glob("torch._utils", "_rebuild_parameter"), group(number(1))),
            (glob("torch._utils", "_rebuild_tensor_v2"), group(vector())),
            (_FLOATS, group(number(2**40))),
            (text("print"), group(text("x"))),
        )
    ],
    # As size, stride, offset, or number of elements.
    _NO_COUNT: [
        program(table({"x": value}))
        for bad in _NOT_COUNTS
        for value in (
            rebuild(_WHOLE, number(0), group(bad), sizes([1])),
            rebuild(_WHOLE, number(0), sizes([2]), group(bad)),
            rebuild(_WHOLE, bad, sizes([2]), sizes([1])),
            group(text("storage"), _FLOATS, text("0"), text("cpu"), bad) + b"Q",
        )
    ],
    "one of its tensors has 9 dimensions": [
        program(rebuild(_WHOLE, number(0), sizes([1] * 9), sizes([1] * 9)))
    ],
    # Another type, another first word, another class, a key that is no text, one part short.
    "it refers to something that is not a storage": [
        program(identity, b"Q")
        for identity in (
            text("storage"),
            group(text("module"), _FLOATS, text("0"), text("cpu"), number(2)),
            group(text("storage"), text("FloatStorage"), text("0"), text("cpu"), number(2)),
            group(text("storage"), _ORDERED_DICT, text("0"), text("cpu"), number(2)),
            group(text("storage"), _FLOATS, number(0), text("cpu"), number(2)),
            group(text("storage"), _FLOATS, text("0"), text("cpu")),
        )
    ],
}


@pytest.mark.parametrize("told", _REFUSED)
def test_what_torch_does_not_write_is_refused_with_the_reason(told: str) -> None:
    """Tables that are none, names, opcodes, calls, counts and storages of another kind."""
    for content in _REFUSED[told]:
        assert refuse(content) == told, content


# Blow-ups.


@pytest.mark.parametrize(
    "build",
    [
        lambda big: table({"x": big}),
        lambda big: b"}" + big + number(1) + b"s",
        lambda big: table({"y": vector(), "state_dict": big}),
        lambda big: big + b"Q",
        lambda big: glob("torch._utils", "_rebuild_tensor_v2") + big + REDUCE,
        lambda big: rebuild(storage("F32", "0", 2), number(0), big, big),
        lambda big: big + big + b"\x93",
        lambda big: table({"y": vector()}) + big + b"b",
    ],
    ids=["value", "key", "table", "id", "arguments", "sizes", "name", "state"],
)
def test_a_tuple_of_2_to_the_60_leaves_takes_no_time(build: Callable[[bytes], bytes]) -> None:
    """Wherever it stands, it is neither hashed, compared nor shown, which would not end."""
    try:
        assert read_state_dict(program(build(nest_pairs(60)))) == {"y": _VECTOR}
    except TensorFileError as error:
        assert "opcode" not in str(error)
        assert len(str(error)) < 100


@pytest.mark.parametrize("wrap", [b"\x85", b"q\x00}" + text("x") + b"h\x00s", b"q\x00]h\x00a"])
def test_deep_nesting_does_no_harm(wrap: bytes) -> None:
    """Ten thousand tuples, tables or lists within one another: no recursion anywhere."""
    content = program(table({"x": EMPTY_TUPLE + wrap * 10_000, "y": vector()}))
    assert read_state_dict(content) == {"y": _VECTOR}


def test_a_large_memo_number_takes_no_memory() -> None:
    """Python's unpickler would allocate for 4 thousand million objects."""
    content = program(table({"x": vector()}), b"r\xff\xff\xff\xffj\xff\xff\xff\xff")
    tracemalloc.start()
    try:
        assert read_state_dict(content) == {"x": _VECTOR}
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# Damage.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02.",
        b"q\x00.",
        b"h\x00.",
        b"t.",
        b"(u.",
        b"}(" + text("x") + b"u.",
        b"R.",
        b"b.",
        b"\x86.",
        b"\x93.",
        b"X\xff\xff\xff\xffx.",
        b"X\x01\x00\x00\x00\xff.",
        b"\xff.",
        b"I" + b"9" * 10_000 + b"\n.",
    ],
)
def test_a_broken_program_is_one_line(content: bytes) -> None:
    """An empty stack, a mark or memo that is not there, a cut argument, an unknown opcode."""
    assert refuse(content)


def test_a_pickle_cut_anywhere_is_one_line() -> None:
    """Every beginning of what torch wrote."""
    whole = read_stored("dtypes")
    for length in range(len(whole)):
        refuse(whole[:length])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_pickle_with_any_byte_changed_raises_nothing_else(flip: int) -> None:
    """It is refused, or a name or number in it is another."""
    whole = read_stored("layouts")
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :]
        try:
            read_state_dict(changed)
        except TensorFileError as error:
            assert "\n" not in str(error)
