"""Reads small files, and the JSON and TOML in them, by one set of rules for the whole product.

Nothing else here or in gpt2cli parses JSON or TOML. A text is UTF-8, with or without a byte order
mark. Of JSON we take what RFC 8259 calls JSON, and refuse what no consumer could handle: deep
nesting, numbers beyond a float's range, a key that is given twice, half of a surrogate pair.
"""

import json
import math
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

SMALL: Final = 8 * 2**20  # bytes
# A tokenizer.json of 250,000 tokens and as many merges has 20 MB.
LARGE: Final = 64 * 2**20
DEEPEST: Final = 100  # levels of lists and objects: what is read may be written again, from deeper

_BLOCK: Final = 1 << 16
LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_MOST_DIGITS: Final = math.floor(math.log10(1.7e308))  # of an integer that a float can hold
_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class ReadError(Exception):
    """A file or text cannot be read.

    `reason` says why, to follow its name: "is nested too deeply". The text of the exception has,
    beside that, what the author of the file can do.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}; {advice}" if advice else reason)


class AccessError(ReadError):
    """The system cannot open the file; its content may be right."""


class MissingFileError(AccessError):
    """There is no such file."""


def read_bytes(path: Path, *, most_bytes: int = SMALL, pipes: bool = False) -> bytes:
    """Return what a file of at most so many bytes holds.

    With `pipes` a pipe or device is read, as `<(…)` of a shell gives; it may block or never end.

    Raises:
        ReadError: if it is too large, a Git LFS pointer, or no regular file; the system's own
            reasons are an AccessError, and where there is no file a MissingFileError.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise ReadError("is a directory, expected a file")
        if not stat.S_ISREG(found.st_mode) and not pipes:
            raise ReadError("is not a regular file")
        _refuse_size(found.st_size, most_bytes)
        with path.open("rb") as file:
            return _read_opened(file, most_bytes)
    except FileNotFoundError as error:
        raise MissingFileError("is missing") from error
    except OSError as error:
        raise AccessError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:  # NUL or half of a surrogate pair in the path
        raise ReadError("cannot be read: no file can have this name") from error


def read_text(path: Path, *, most_bytes: int = SMALL, pipes: bool = False) -> str:
    """Return the text of a file; raises what `read_bytes` and `decode` do."""
    return decode(read_bytes(path, most_bytes=most_bytes, pipes=pipes), file=path)


def read_object(
    path: Path, *, most_bytes: int = SMALL, repeated_keys: bool = False
) -> dict[str, Any]:
    """Return the object that a JSON file holds; raises what `read_text` and `parse_json` do."""
    value = parse_json(read_text(path, most_bytes=most_bytes), repeated_keys=repeated_keys)
    if not isinstance(value, dict):
        raise ReadError("is not a JSON object")
    return value


def decode(data: bytes, *, file: Path | None = None) -> str:
    """Return the text that UTF-8 bytes stand for, without a byte order mark.

    Raises:
        ReadError: if they are not UTF-8; with what iconv can do, for the file that they are from.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith(_UTF_16_MARKS):
            raise ReadError("is UTF-16, expected UTF-8", _advise("UTF-16", file)) from error
        reason = f"is not valid UTF-8 (byte {error.start})"
        raise ReadError(reason, _advise("latin1", file)) from error


def parse_json(text: str | bytes, *, repeated_keys: bool = False, half_pairs: bool = False) -> Any:
    """Return the value of a JSON text; bytes are UTF-8.

    `repeated_keys` takes an object that has a key twice, of which the last counts: published
    files are read so everywhere. `half_pairs` takes strings that no UTF-8 can write, for who wants
    to show them; `find_half_pair` finds them.

    Raises:
        ReadError: if it is no JSON, or beyond the limits of this module.
    """
    if isinstance(text, bytes):
        text = decode(text)
    if not text.strip():
        raise ReadError("is empty, expected JSON")
    if "\0" in text[:2]:  # without a mark; NUL is nowhere in JSON
        raise ReadError("is UTF-16, expected UTF-8", _advise("UTF-16", None))
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_read_float,
            parse_int=_read_integer,
            object_pairs_hook=None if repeated_keys else _read_pairs,
        )
    except json.JSONDecodeError as error:
        raise ReadError(f"is not JSON: {error.msg} ({_locate(error)})") from error
    except RecursionError as error:
        raise ReadError("is nested too deeply") from error
    _refuse_depth(value)
    # What it is written as, which may be half of a whole pair as well.
    if not half_pairs and _HALF_PAIR.search(text) and (half := find_half_pair(value)):
        raise ReadError(f"has half of a surrogate pair, {half}, which is not a character")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text, or raise a ReadError."""
    import tomllib  # only where there is something to read

    try:
        value = tomllib.loads(text)
    except RecursionError as error:
        raise ReadError("is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ReadError(f"is not valid TOML: {error}") from error
    except ValueError as error:  # CPython's limit, whose advice is for programmers
        raise ReadError("is not valid TOML: a number has thousands of digits") from error
    _refuse_depth(value)
    return value


def find_half_pair(value: Any) -> str | None:
    r"""Return half of a surrogate pair in the texts of a value, as \ud800; None if it has none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(error.object[error.start]):04x}"
    return None


def _read_opened(file: BinaryIO, most_bytes: int) -> bytes:
    blocks: list[bytes] = []
    size = 0
    # Block by block, since read(n) allocates n bytes at once. The file may have grown, or be a
    # pipe.
    while block := file.read(min(_BLOCK, most_bytes + 1 - size)):
        blocks.append(block)
        size += len(block)
    _refuse_size(size, most_bytes)
    data = b"".join(blocks)
    if data.startswith(LFS_POINTER):
        raise ReadError("is a Git LFS pointer to the file; run `git lfs pull`")
    return data


def _refuse_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise ReadError(f"has {size} bytes, expected at most {most_bytes}")


def _advise(encoding: str, file: Path | None) -> str:
    name = f" {shlex.quote(str(file))}" if file else ""
    return f"convert it, for example with `iconv -f {encoding} -t UTF-8{name}`"


def _refuse_depth(value: Any) -> None:
    """Refuse by a number of its own: where Python's recursion ends depends on who calls."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for part in level
            if isinstance(part, dict | list)
            for child in (part.values() if isinstance(part, Mapping) else part)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise ReadError("is nested too deeply")


def _refuse_constant(constant: str) -> NoReturn:
    raise ReadError(f"is not JSON: {constant} is not a JSON number")


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ReadError(f"has a number that is too large: {text[:20]}")
    return value


def _read_integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ReadError(f"has a number of {len(text)} digits")
    return int(text)


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ReadError(f"has the key {json.dumps(twice[:40])} twice")
    return value


def _locate(error: json.JSONDecodeError) -> str:
    """Return where the fault is; in a text of one line, only the character's number."""
    if "\n" in error.doc.strip():
        return f"line {error.lineno}, column {error.colno}"
    return f"character {error.pos + 1}"
