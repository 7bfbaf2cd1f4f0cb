"""Claims about how an input is cut into records, and that it never blocks who takes them."""

import errno
import os
import pathlib
import re
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.batch.items import LONGEST_RECORD, InputReader
from gpt2cli.errors import PromptError
from tests.gpt2cli.batch.feeding import HANGS_AFTER, fed, feeding, read_all


def cut(data: bytes, terminator: bytes = b"\n") -> list[bytes | PromptError]:
    """Return the records of an input of some kB."""
    with fed(data) as descriptor:
        return read_all(InputReader(descriptor, terminator=terminator))


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        (b"a\r\nb\r\n\r\nc\r", [b"a", b"b", b"", b"c"]),
        (b"a\r\r\n\rb\n", [b"a\r", b"\rb"]),
        (b"a\0b\n", [b"a\0b"]),
        (b"caf\xe9\n\xff\n", [b"caf\xe9", b"\xff"]),
    ],
    ids=repr,
)
def test_lines(data: bytes, records: list[bytes]) -> None:
    """A record for each; the last one's newline may lack; a CR before it is a part of it."""
    assert cut(data) == records


@pytest.mark.parametrize(
    ("data", "records"),
    [(b"", []), (b"\0", [b""]), (b"a\nb\r\0c", [b"a\nb\r", b"c"]), (b"\0\0a\0", [b"", b"", b"a"])],
    ids=repr,
)
def test_nul_separated(data: bytes, records: list[bytes]) -> None:
    """Newlines and carriage returns are text there."""
    assert cut(data, b"\0") == records


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


def test_a_record_is_there_before_the_next_one_is_written() -> None:
    """The test writes the second only when it has the first."""
    with feeding(b"a\n") as feed:
        reader = InputReader(feed.reader)
        assert take_next(reader) == b"a"
        assert not reader.ended
        feed.write(b"b\n")
        assert take_next(reader) == b"b"
        feed.end()
        assert read_all(reader) == []


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


@pytest.mark.parametrize("end", [b"\n", b""], ids=["terminated", "at the end"])
@pytest.mark.parametrize("excess", [0, 1, 3 * LONGEST_RECORD])
def test_a_record_that_is_too_long_is_an_error_and_the_next_ones_go_on(
    tmp_path: pathlib.Path, excess: int, end: bytes
) -> None:
    """The error tells both sizes; one byte less is a record."""
    path = tmp_path / "lines"
    size = LONGEST_RECORD + excess
    after = b"b\n" if end else b""
    path.write_bytes(b"a\n" + b"x" * size + end + after)
    descriptor = os.open(path, os.O_RDONLY)
    first, long, *rest = read_all(InputReader(descriptor))
    os.close(descriptor)
    assert (first, rest) == (b"a", [b"b"] if end else [])
    if excess:
        assert isinstance(long, PromptError)
        assert re.findall(r"\d+", str(long)) == [str(size), str(LONGEST_RECORD)]
    else:
        assert long == b"x" * size


def test_memory_does_not_grow_with_a_record_that_never_ends(tmp_path: pathlib.Path) -> None:
    """32 MB without a newline are read with a few MB."""
    path = tmp_path / "line"
    with path.open("wb") as file:
        file.truncate(32 << 20)
    descriptor = os.open(path, os.O_RDONLY)
    tracemalloc.start()
    try:
        [record] = read_all(InputReader(descriptor))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        os.close(descriptor)
    assert isinstance(record, PromptError)
    assert peak < 4 * LONGEST_RECORD


@pytest.mark.parametrize(
    "data", [b"a\nbb\n\n", b"a\r\nbb\n", b"\xff\n", b"x" * (LONGEST_RECORD + 1) + b"\n"]
)
def test_the_bytes_of_what_was_taken_are_counted(tmp_path: pathlib.Path, data: bytes) -> None:
    """All of them: terminators, carriage returns, and what was too long."""
    path = tmp_path / "lines"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    reader = InputReader(descriptor)
    assert reader.bytes_taken == 0
    read_all(reader)
    os.close(descriptor)
    assert reader.bytes_taken == len(data)


def test_an_input_that_cannot_be_read_is_an_error_after_what_could(tmp_path: pathlib.Path) -> None:
    """A folder gives no byte: the error says why, and nothing comes after it."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    reader = InputReader(descriptor)
    with pytest.raises(PromptError, match=os.strerror(errno.EISDIR)):
        read_all(reader)
    os.close(descriptor)
    assert reader.ended


def test_an_input_that_does_not_block_is_waited_for() -> None:
    """Another program may have set O_NONBLOCK on a terminal or pipe that it shares with us."""
    with feeding() as feed:
        os.set_blocking(feed.reader, False)
        reader = InputReader(feed.reader)
        assert reader.take(wait=True) is None
        feed.write(b"a\nb")
        assert take_next(reader) == b"a"
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
