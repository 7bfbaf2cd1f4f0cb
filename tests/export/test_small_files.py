"""Claims about what is taken for text, JSON and TOML, whoever asks."""

import json
import os
import pathlib
from typing import Any, Final

import pytest

from export.small_files import (
    MissingFileError,
    ReadError,
    decode,
    parse_json,
    parse_toml,
    read_bytes,
    read_object,
)


def _refusal(text: str | bytes) -> str:
    with pytest.raises(ReadError) as caught:
        parse_json(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty, expected JSON"),
        (" \n", "is empty, expected JSON"),
        ('{"a"', "is not JSON: Expecting ':' delimiter (character 5)"),
        ("[1,\n2", "is not JSON: Expecting ',' delimiter (line 2, column 2)"),
        ("{'a': 1}", "is not JSON: Expecting property name enclosed in double quotes (character 2"),
        ('{"a": NaN}', "is not JSON: NaN is not a JSON number"),
        ("[-Infinity]", "is not JSON: -Infinity is not a JSON number"),
        ("[1e999]", "has a number that is too large: 1e999"),
        ("9" * 401, "has a number of 401 digits"),
        ("9" * 5000, "has a number of 5000 digits"),
        ('{"b": 1, "a": 1, "a": 2}', 'has the key "a" twice'),
        (r'["\ud83d"]', r"has half of a surrogate pair, \ud83d, which is not a character"),
        (r'{"\uDE00": 1}', r"has half of a surrogate pair, \ude00, which is not a character"),
        ("[" * 100_000, "is nested too deeply"),
        ("[" * 101 + "]" * 101, "is nested too deeply"),
        (b'"\xe4"', "is not valid UTF-8 (byte 1); convert it, for example with `iconv -f latin1 -"),
        ("{}".encode("utf-16"), "is UTF-16, expected UTF-8; convert it, for example with"),
        ("{}".encode("utf-16-le"), "is UTF-16, expected UTF-8; convert it, for exam"),
    ],
    ids=lambda value: value[:12],
)
def test_what_is_no_json_for_everybody_is_refused_with_the_reason(
    text: str | bytes, told: str
) -> None:
    """What RFC 8259 has not, what no reader agrees on, and what could not be written again."""
    assert _refusal(text).startswith(told)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\\ud83d"', r"\ud83d"),
        ("[" * 99 + "[]" + "]" * 99, json.loads("[" * 100 + "]" * 100)),
        ("-" + "9" * 307, -int("9" * 307)),
        ("\ufeff{}".encode(), {}),
        ('{"a": {"a": [1e308]}}', {"a": {"a": [1e308]}}),
    ],
    ids=["pair", "escaped", "hundred-levels", "digits", "mark", "same-key-elsewhere"],
)
def test_what_only_resembles_it_is_taken(text: str | bytes, value: Any) -> None:
    """The nearest forms that are right, up to the limits."""
    assert parse_json(text) == value


def test_more_is_taken_where_that_is_asked_for() -> None:
    """Of a key given twice the last counts, as other programs read published checkpoints.

    Half a pair is for who shows what was refused.
    """
    assert parse_json('{"a": 1, "a": 2}', repeated_keys=True) == {"a": 2}
    assert parse_json(r'"\ud83d"', half_pairs=True) == "\ud83d"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"a = {'[' * 5000}", "is nested too deeply"),
        (f"a = {'[' * 101}{']' * 101}", "is nested too deeply"),
        (f"a{'.a' * 200} = 1", "is nested too deeply"),
        (f"a = {'1' * 5000}", "is not valid TOML: a number has thousands of digits"),
        ("a", "is not valid TOML: Expected '=' after a key"),
    ],
    ids=["open", "closed", "dotted", "digits", "syntax"],
)
def test_what_is_no_toml_is_refused_with_the_reason(text: str, told: str) -> None:
    """The same limits as of JSON."""
    with pytest.raises(ReadError) as caught:
        parse_toml(text)
    assert str(caught.value).startswith(told)


def test_a_file_that_is_too_large_is_not_read(tmp_path: pathlib.Path) -> None:
    """A hole of a terabyte; both numbers are told."""
    path = tmp_path / "hole"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ReadError, match="has 1099511627776 bytes, expected at most 100"):
        read_bytes(path, most_bytes=100)


def test_the_largest_file_is_read_and_one_byte_more_is_not(tmp_path: pathlib.Path) -> None:
    """Also of a file that tells no size, as a pipe."""
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert read_bytes(path, most_bytes=3) == b"abc"
    reading, writing = os.pipe()
    os.write(writing, b"abcd")
    with pytest.raises(ReadError, match="has 3 bytes, expected at most 2"):
        read_bytes(pathlib.Path(f"/dev/fd/{reading}"), most_bytes=2, pipes=True)
    os.close(writing)
    os.close(reading)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: pathlib.Path) -> None:
    """A pipe that nobody writes, a device without end, a folder, a name that no file can have."""
    os.mkfifo(tmp_path / "pipe")
    for path, told in [
        (tmp_path / "pipe", "is not a regular file"),
        (pathlib.Path("/dev/zero"), "is not a regular file"),
        (tmp_path, "is a directory"),
        (tmp_path / "a\0b", "no file can have this name"),
        (tmp_path / "\ud83d", "no file can have this name"),
        (tmp_path / ("x" * 1000), "cannot be read: File name too long"),
    ]:
        with pytest.raises(ReadError, match=told):
            read_bytes(path)


_POINTER: Final = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "is missing"),
        ("[]", "is not a JSON object"),
        (_POINTER, "is a Git LFS pointer to the file; run `git lfs pull`"),
    ],
)
def test_what_holds_no_object_is_told(
    tmp_path: pathlib.Path, content: str | None, told: str
) -> None:
    """A missing file by an error of its own: some readers do without it."""
    path = tmp_path / "file"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ReadError if content else MissingFileError, match=told):
        read_object(path)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    """One at the beginning alone."""
    assert decode("\ufeffa\ufeff".encode()) == "a\ufeff"
