"""Output that a killed run can go on with: the file, and beside it a journal of what was done.

`FILE.resume.json` is written first: a line of JSON that says what the run was, then one line with
the digest of each input record before its results go to FILE, and one before each of them that is
an error which arose in the run. To resume, the results in FILE are matched with the input record by
record; an unterminated line or an incomplete group of samples is cut off and made again.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from gpt2cli.batch.items import ItemSource
from gpt2cli.errors import OutputError, UsageError

_SUFFIX: Final = ".resume.json"
_ERROR: Final = b'"error"\n'  # which is no digest
_SAME_INPUT: Final = "give the same input, or leave out --resume to begin anew"


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """What must be the same for a run to be resumed."""

    options: dict[str, Any]
    seed: int
    model: str
    revision: str | None
    source: dict[str, Any]  # what identifies a model that has no revision
    generation_config: dict[str, Any]  # settings that are the model's own
    precision: str
    device: str
    versions: dict[str, str]


class Journal:
    """The two files of a run that can be resumed, open for writing at their ends."""

    def __init__(
        self, output: BinaryIO, journal: BinaryIO, *, done: int = 0, errors: int = 0
    ) -> None:
        """`done` input records, of which `errors` are errors, have their results in the output."""
        self._output = output
        self._journal = journal
        self.done = done
        self.errors = errors

    def begin(self, digest: str) -> None:
        """Take note that the results of the next input record follow.

        Raises:
            OutputError: if it cannot be written; what was written before can be resumed.
        """
        _write_all(self._journal, f"{json.dumps(digest)}\n".encode())

    def foresee_error(self) -> None:
        """Take note that the next result is an error, which a line of text would not tell.

        Raises:
            OutputError: as `begin`.
        """
        _write_all(self._journal, _ERROR)

    def write(self, results: bytes) -> None:
        """Append results of the record that has begun.

        Raises:
            OutputError: if they cannot be written; what was written before can be resumed.
        """
        _write_all(self._output, results)

    def is_abandoned(self) -> bool:
        """Tell whether nobody reads any more: a file is never abandoned."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._output.close()
        self._journal.close()


def journal_path(output: Path) -> Path:
    """Return where the journal of `output` lies."""
    return output.with_name(output.name + _SUFFIX)


def read_header(output: Path) -> Mapping[str, Any] | None:
    """Return what the run of `output` was, as JournalHeader says it; None if none was begun.

    Raises:
        OutputError: if the journal is damaged.
    """
    path = journal_path(output)
    try:
        with path.open("rb") as file:
            return _parse_header(file.readline(), path)
    except FileNotFoundError:
        if output.exists():
            raise OutputError(f"{output} has no {path.name} beside it to resume from") from None
        return None
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error


def start_output(output: Path, header: JournalHeader) -> Journal:
    """Begin a new run: its journal first, which disowns what an older run left in `output`.

    Raises:
        OutputError: if they cannot be written, or another process is writing them.
    """
    with _opened(output) as (results, journal):
        journal.truncate(0)
        _write_all(journal, f"{json.dumps(asdict(header))}\n".encode())
        results.truncate(0)
        return Journal(results, journal)


def resume_output(output: Path, header: JournalHeader, items: ItemSource) -> Journal:
    """Go on with a run: match what was done with the input, and cut off what is incomplete.

    Takes the records that are done from `items`.

    Raises:
        UsageError: if the run was another one.
        OutputError: if the input is not the one that was read before, or another process writes.
    """
    path = journal_path(output)
    with _opened(output) as (results, journal):
        with path.open("rb") as done_journal, output.open("rb") as done_results:
            before = _parse_header(done_journal.readline(), path)
            if before is None:
                raise OutputError(f"{path} was changed meanwhile by another program")
            _refuse_difference(before, header)
            matched = _match(done_journal, done_results, items)
            ends = done_results.tell(), done_journal.tell()
        for file, end in zip((results, journal), ends, strict=True):
            file.truncate(end)
            file.seek(end)
        return Journal(results, journal, done=matched[0], errors=matched[1])


def _write_all(file: BinaryIO, data: bytes) -> None:
    try:
        while data:
            data = data[file.write(data) :]  # on a disk that is nearly full, a part
    except OSError as error:
        raise OutputError(
            f"cannot write the result: {error.strerror}; --resume goes on from here"
        ) from error


@contextmanager
def _opened(output: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Give output and journal, open for this process alone and unchanged; close them on errors."""
    try:
        with ExitStack() as on_error:
            results, journal = (
                on_error.enter_context(_open_unchanged(path))
                for path in (output, journal_path(output))
            )
            if _is_taken(journal):
                raise OutputError(f"another process is writing {output}")
            yield results, journal
            on_error.pop_all()
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def _open_unchanged(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _is_taken(file: BinaryIO) -> bool:
    """Take the file until this process ends; tell whether another one has taken it."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _parse_header(line: bytes, path: Path) -> Mapping[str, Any] | None:
    """Return the header; None if the run was killed while it was written: nothing was done."""
    if not line.endswith(b"\n"):
        return None
    try:
        header = json.loads(line)
        parts = header["options"], header["versions"], header["seed"]
        fits = tuple(map(type, parts)) == (dict, dict, int)
    except (ValueError, TypeError, KeyError, RecursionError):
        fits = False
    if not fits:
        raise OutputError(f"{path} is damaged; remove it to begin anew without --resume")
    return header


def _refuse_difference(before: Mapping[str, Any], now: JournalHeader) -> None:
    """Refuse to resume a run that was another one.

    Raises:
        UsageError: naming what differs, with both values.
    """
    known, new = _flatten_header(before), _flatten_header(asdict(now))
    for name in known | new:
        values = [json.dumps(side.get(name), ensure_ascii=False) for side in (known, new)]
        if values[0] != values[1]:
            raise UsageError(
                f"--resume: the run was begun with {name} {values[0]}, now it is {values[1]}; "
                "give the same, or begin anew without --resume"
            )


def _flatten_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header's values by the names that the user knows them by, versions first."""
    values = dict(header)
    return {**values.pop("versions"), **values.pop("options"), **_flatten(values)}


def _flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values under the names of all levels."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name} {inner}": found for inner, found in _flatten(value).items()}
        else:
            flat[name] = value
    return flat


def _match(journal: BinaryIO, results: BinaryIO, items: ItemSource) -> tuple[int, int]:
    """Return how many records are done, and how many of them are errors.

    Leaves both files where the next record begins.
    """
    done = errors = 0
    ends = (results.tell(), journal.tell())
    line = journal.readline()
    while line.endswith(b"\n"):
        item = items.take_next()
        if item is None:
            fault = f"the input has {done} records, more were begun before"
            raise OutputError(f"--resume: {fault}; {_SAME_INPUT}")
        if json.dumps(item.digest).encode() != line.strip():
            fault = f"record {done} of the input is not the one of before"
            raise OutputError(f"--resume: {fault}; {_SAME_INPUT}")
        failed = item.prepared is None
        while (line := journal.readline()) == _ERROR:
            failed = True
        if not all(results.readline().endswith(b"\n") for _ in range(item.results)):
            items.give_back(item)
            break
        done += 1
        errors += failed
        ends = (results.tell(), journal.tell() - len(line))
    results.seek(ends[0])
    journal.seek(ends[1])
    return done, errors
