"""Claims about how an input is cut into records, and that it never blocks who takes them."""

import errno
import os
import pathlib
import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import PromptError
from gpt2cli.resumable.input import LONGEST_RECORD, InputReader
from tests.gpt2cli.batch.feeding import HANGS_AFTER, fed, feeding, read_all


@pytest.mark.parametrize(
    ("data", "terminator", "records"),
    [
        (b"", b"\n", []),
        (b"\n", b"\n", [b""]),
        (b"a", b"\n", [b"a"]),
        (b"a\n", b"\n", [b"a"]),
        (b"\n\na\n\n", b"\n", [b"", b"", b"a", b""]),
        (b"a\r\nb\r\n\r\nc\r", b"\n", [b"a", b"b", b"", b"c"]),
        (b"a\r\r\n\rb\n", b"\n", [b"a\r", b"\rb"]),
        (b"a\0b\n", b"\n", [b"a\0b"]),
        (b"caf\xe9\n\xff\n", b"\n", [b"caf\xe9", b"\xff"]),
        (b"", b"\0", []),
        (b"\0", b"\0", [b""]),
        (b"a\nb\r\0c", b"\0", [b"a\nb\r", b"c"]),
        (b"\0\0a\0", b"\0", [b"", b"", b"a"]),
    ],
    ids=repr,
)
def test_a_record_is_what_stands_before_a_terminator(
    data: bytes, terminator: bytes, records: list[bytes]
) -> None:
    """The last one's may lack; a CR before a newline is a part of it, before NUL it is text."""
    with fed(data) as descriptor:
        assert read_all(InputReader(descriptor, terminator=terminator)) == records


@given(st.lists(st.binary(max_size=3).map(lambda data: data.replace(b"\r", b"")), max_size=9))
def test_an_input_is_cut_alike_however_it_arrives(pieces: list[bytes]) -> None:
    """Written in pieces that are read one by one, or at once."""
    with feeding() as feed:
        reader = InputReader(feed.reader)
        for piece in pieces:
            feed.write(piece)
        feed.end()
        records = read_all(reader)
    whole = b"".join(pieces)
    assert records == whole.removesuffix(b"\n").split(b"\n") if whole else records == []


def test_only_a_bounded_number_is_read_ahead(tmp_path: pathlib.Path) -> None:
    """Of 100,000 lines that nobody takes most stay in the file."""
    path = tmp_path / "lines"
    path.write_bytes(b"x\n" * 100_000)
    descriptor = os.open(path, os.O_RDONLY)
    reader = InputReader(descriptor)
    deadline = time.monotonic() + HANGS_AFTER
    place, before = 0, -1
    while place == 0 or place != before:  # until it has come to rest
        assert time.monotonic() < deadline
        time.sleep(0.05)
        before, place = place, os.lseek(descriptor, 0, os.SEEK_CUR)
    assert place <= 1 << 16  # one block
    assert len(read_all(reader)) == 100_000
    os.close(descriptor)


@contextmanager
def opened(path: pathlib.Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("end", [b"\n", b""], ids=["terminated", "at the end"])
@pytest.mark.parametrize("excess", [0, 1, 3 * LONGEST_RECORD])
def test_a_record_that_is_too_long_is_an_error_and_the_next_ones_go_on(
    tmp_path: pathlib.Path, excess: int, end: bytes
) -> None:
    """The error tells both sizes; one byte less is a record."""
    size = LONGEST_RECORD + excess
    after = b"b\n" if end else b""
    (tmp_path / "lines").write_bytes(b"a\n" + b"x" * size + end + after)
    with opened(tmp_path / "lines") as descriptor:
        first, long, *rest = read_all(InputReader(descriptor))
    assert (first, rest) == (b"a", [b"b"] if end else [])
    if excess:
        assert isinstance(long, PromptError)
        assert re.findall(r"\d+", str(long)) == [str(size), str(LONGEST_RECORD)]
    else:
        assert long == b"x" * size


def test_memory_does_not_grow_with_a_record_that_never_ends(tmp_path: pathlib.Path) -> None:
    """32 MB without a newline are read with a few MB."""
    (tmp_path / "line").touch()
    os.truncate(tmp_path / "line", 32 << 20)
    tracemalloc.start()
    try:
        with opened(tmp_path / "line") as descriptor:
            [record] = read_all(InputReader(descriptor))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(record, PromptError)
    assert peak < 4 * LONGEST_RECORD


@pytest.mark.parametrize(
    "data", [b"a\nbb\n\n", b"a\r\nbb\n", b"\xff\n", b"x" * (LONGEST_RECORD + 1) + b"\n"]
)
def test_the_bytes_of_what_was_taken_are_counted(tmp_path: pathlib.Path, data: bytes) -> None:
    """All of them: terminators, carriage returns, and what was too long."""
    (tmp_path / "lines").write_bytes(data)
    with opened(tmp_path / "lines") as descriptor:
        reader = InputReader(descriptor)
        assert reader.bytes_taken == 0
        read_all(reader)
    assert reader.bytes_taken == len(data)


def test_an_input_that_cannot_be_read_is_an_error_after_what_could(tmp_path: pathlib.Path) -> None:
    """A folder gives no byte: the error says why, and nothing comes after it."""
    with opened(tmp_path) as descriptor:
        reader = InputReader(descriptor)
        with pytest.raises(PromptError, match=os.strerror(errno.EISDIR)):
            read_all(reader)
    assert reader.ended


@pytest.mark.parametrize("blocking", [True, False])
def test_a_record_is_there_before_the_next_one_is_written(blocking: bool) -> None:
    """Another program may have set O_NONBLOCK on a terminal or pipe that it shares with us."""
    with feeding() as feed:
        os.set_blocking(feed.reader, blocking)
        reader = InputReader(feed.reader)
        assert reader.take(wait=True) is None
        feed.write(b"a\nb")
        assert take_next(reader) == b"a"
        assert not reader.ended
        feed.end()
        assert read_all(reader) == [b"b"]


def test_its_thread_does_not_keep_the_program() -> None:
    """A read that blocks for ever is given up at exit."""
    with feeding() as feed:
        reader = InputReader(feed.reader)
        [thread] = [thread for thread in threading.enumerate() if thread.name == "input"]
        assert thread.daemon
        feed.end()
        read_all(reader)
        thread.join(HANGS_AFTER)


def take_next(reader: InputReader) -> bytes | PromptError | None:
    """Return the next record of an input that may still be open."""
    deadline = time.monotonic() + HANGS_AFTER
    while (record := reader.take(wait=True)) is None:
        assert time.monotonic() < deadline
    return record
