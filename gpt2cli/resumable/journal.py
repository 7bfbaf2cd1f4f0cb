"""Output that a killed run can continue: the file, and beside it a journal of what was done.

`FILE.resume.json` is written first: a line of JSON that says what the run was, then a line before
each result that goes to FILE, which knows the result by its index and digest. Both are flushed to
disk about every second. To resume, the results in FILE are matched with the journal and the input:
what a kill or a power cut left incomplete is cut off and made again.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

from export.whole import lock, sync_folder
from gpt2cli.errors import OutputError
from gpt2cli.resumable.entries import (
    LONGEST_ENTRY,
    LONGEST_RESULT,
    Ending,
    Entry,
    damaged,
    is_torn,
    parse_header,
)
from gpt2cli.resumable.header import Header, refuse_difference
from gpt2cli.resumable.input import Item, ItemSource, ItemT, Line, digest

_SUFFIX: Final = ".resume.json"
_SYNC_SECONDS: Final = 1.0
_SYNC_PAUSE: Final = 50  # times as long as the last sync took: on a slow disk it costs 2 %
_SAME_INPUT: Final = "use the same input, or start over without {resume}"


class Journal:
    """The two files of a run that can be resumed, open for writing at their ends."""

    def __init__(
        self,
        output: BinaryIO,
        journal: BinaryIO,
        *,
        done: int = 0,
        errors: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`done` input records, of which `errors` are errors, have their results in the output."""
        self._output = output
        self._journal = journal
        self.done = done
        self.errors = errors
        self._clock = clock
        self._sync_at = clock() + _SYNC_SECONDS

    def write(self, line: Line) -> None:
        """Append a result.

        Raises:
            OutputError: if it cannot be written; what was written before can be resumed.
        """
        result, failed = line.text.encode(), line.error is not None
        entry = Entry(line.index, line.sample, line.digest, digest(result), failed)
        # Entry first: a result without one could not be told from another program's line.
        _write_all(self._journal, f"{json.dumps(entry)}\n".encode())
        _write_all(self._output, result)
        began = self._clock()
        if began >= self._sync_at:
            self._sync()
            ended = self._clock()
            self._sync_at = ended + max(_SYNC_SECONDS, _SYNC_PAUSE * (ended - began))

    def finish(self, ending: Ending) -> None:
        """Write that nothing is missing up to the end of the input; resuming takes it back.

        Raises:
            OutputError: if it cannot be written.
        """
        _write_all(self._journal, f"{json.dumps(ending._asdict())}\n".encode())

    def is_abandoned(self) -> bool:
        """Tell whether the reader has gone: a file always stays."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._output, self._journal:
            try:
                self._sync()
            except OutputError:
                if kind is None:  # else the first error is reported
                    raise

    def _sync(self) -> None:
        with _telling_how_to_go_on():
            for file in (self._journal, self._output):
                os.fsync(file.fileno())


def journal_path(output: Path) -> Path:
    """Return where the journal of `output` lies."""
    return output.with_name(output.name + _SUFFIX)


def read_header(output: Path) -> Header | None:
    """Return what the run of `output` was; None if none was begun.

    Raises:
        OutputError: if the journal is damaged.
    """
    path = journal_path(output)
    try:
        if not path.is_file() and path.exists():  # reading a pipe would block
            raise OutputError(f"{path} is not a regular file; remove it to start over")
        with path.open("rb") as file:
            return parse_header(file.readline(LONGEST_ENTRY), path)
    except FileNotFoundError:
        if output.exists():
            raise OutputError(f"{output} has no {path.name} beside it to resume from") from None
        return None
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error


def start_output(output: Path, header: Header) -> Journal:
    """Begin a new run: its journal first, so that results of an older run no longer count.

    Raises:
        OutputError: if they cannot be written, or another process is writing them.
    """
    with _opened(output) as (results, journal):
        journal.truncate(0)
        _write_all(journal, f"{json.dumps(header)}\n".encode())
        os.fsync(journal.fileno())
        results.truncate(0)
        sync_folder(output.parent)
        return Journal(results, journal)


def resume_output(output: Path, header: Header, items: ItemSource[ItemT]) -> Journal:
    """Continue a run: match what was done with the input, and cut off what is incomplete.

    Takes the records that are done from `items`.

    Raises:
        UsageError: if the run had other options or another model.
        OutputError: if the input is not the one that was read before, or another process writes.
    """
    path = journal_path(output)
    with _opened(output) as (results, journal):
        with path.open("rb") as done_journal, output.open("rb") as done_results:
            before = parse_header(done_journal.readline(LONGEST_ENTRY), path)
            if before is None:
                raise OutputError(f"{path} was changed meanwhile by another program")
            refuse_difference(before, header)
            done, errors = _match(done_journal, done_results, items)
            ends = done_results.tell(), done_journal.tell()
        for file, end in zip((results, journal), ends, strict=True):
            file.truncate(end)
            file.seek(end)
        return Journal(results, journal, done=done, errors=errors)


def open_journal(
    output: Path, before: Header | None, header: Header, items: ItemSource[ItemT]
) -> Journal:
    """Begin a run, or continue the one that was `before`, if there is one.

    Raises:
        UsageError, OutputError: as `start_output` and `resume_output`.
    """
    if before is None:
        return start_output(output, header)
    return resume_output(output, header, items)


def _write_all(file: BinaryIO, data: bytes) -> None:
    with _telling_how_to_go_on():
        while data:
            data = data[file.write(data) :]  # on a disk that is nearly full, a part


@contextmanager
def _telling_how_to_go_on() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write the result: {error.strerror}", "{resume} continues from here"
        ) from error


@contextmanager
def _opened(output: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield output and journal, locked for this process and unchanged; close them on errors."""
    try:
        with ExitStack() as on_error:
            results, journal = (
                on_error.enter_context(_open_unchanged(path))
                for path in (output, journal_path(output))
            )
            if lock(results.fileno()) is False:  # holds whatever name the other one used
                raise OutputError(f"another process is writing {output}")
            yield results, journal
            on_error.pop_all()
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def _open_unchanged(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _match(journal: BinaryIO, results: BinaryIO, items: ItemSource[ItemT]) -> tuple[int, int]:
    """Return how many records are done, and how many of them are errors.

    Leaves both files where the next record begins: where a result is torn or missing, if any is.

    Raises:
        OutputError: if the input is another one, or a line of the output is not the run's.
    """
    done = errors = lines = 0
    ends = (results.tell(), journal.tell())
    while (entry := Entry.read(journal)) is not None:
        item = items.take_next()
        if item is None:
            fault = f"the input has {done} records, fewer than the earlier run had started"
            raise OutputError(fault, _SAME_INPUT, option="resume")
        failed = _match_record(item, entry, journal, results, line_number=lines + 1)
        if failed is None:
            items.give_back()
            break
        done += 1
        errors += failed
        lines += item.results
        ends = (results.tell(), journal.tell())
    results.seek(ends[0])
    journal.seek(ends[1])
    return done, errors


def _match_record(
    item: Item, first: Entry, journal: BinaryIO, results: BinaryIO, *, line_number: int
) -> bool | None:
    """Return whether a record with this first entry is an error; None if it is not all there."""
    failed = False
    for sample in range(item.results):
        entry = Entry.read(journal) if sample else first
        if entry is None:
            return None
        if entry.record != item.digest:
            fault = f"record {item.index} of the input is not the same as before"
            raise OutputError(fault, _SAME_INPUT, option="resume")
        if (entry.number, entry.sample) != (item.index, sample):
            raise damaged(journal.name)
        line = results.readline(LONGEST_RESULT)
        if digest(line) != entry.result:
            if is_torn(line) or _is_known(line, journal):
                return None
            raise OutputError(
                f"line {line_number + sample} of {results.name} is not what the run wrote",
                "remove it (what is missing is made again), or start over without {resume}",
                option="resume",
            )
        failed |= entry.failed
    return failed


def _is_known(line: bytes, journal: BinaryIO) -> bool:
    """Tell whether a line is a later result: what stood before it is missing."""
    wanted = digest(line)
    later = iter(lambda: Entry.read(journal), None)
    return any(entry.result == wanted for entry in later)
