"""Output that a killed run can go on with: the file, and beside it a journal of what was done.

`FILE.resume.json` is written first: a line of JSON that says what the run was, then a line before
each result that goes to FILE, which knows the result by its index and digest. Both are flushed to
disk about every second. To resume, the results in FILE are matched with the journal and the input:
what a kill or a power cut tore is cut off and made again, never trusted.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from export.small_files import ReadError, parse_json
from export.whole import lock, sync_folder
from gpt2cli.batch.entries import Entry, digest, is_torn
from gpt2cli.batch.items import BatchItem, ItemSource
from gpt2cli.batch.matching import match
from gpt2cli.errors import OutputError, UsageError

_SUFFIX: Final = ".resume.json"
_SYNC_SECONDS: Final = 1.0
_SYNC_PAUSE: Final = 50  # times as long as the last sync took: on a slow disk it costs 2 %


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

    def write(self, result: bytes, item: BatchItem, *, sample: int, failed: bool) -> None:
        """Append a result, one line, of a record; `failed`: it is an error.

        Raises:
            OutputError: if it cannot be written; what was written before can be resumed.
        """
        entry = Entry(item.index, sample, item.digest, digest(result), failed)
        _write_all(self._journal, entry.format())
        _write_all(self._output, result)
        began = self._clock()
        if began >= self._sync_at:
            self._sync()
            ended = self._clock()
            self._sync_at = ended + max(_SYNC_SECONDS, _SYNC_PAUSE * (ended - began))

    def is_abandoned(self) -> bool:
        """Tell whether nobody reads any more: a file is never abandoned."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._output, self._journal:
            try:
                self._sync()
            except OutputError:
                if kind is None:  # else the first error is told
                    raise

    def _sync(self) -> None:
        with _telling_how_to_go_on():
            for file in (self._journal, self._output):
                os.fsync(file.fileno())


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
        if not path.is_file() and path.exists():  # a pipe would be waited for
            raise OutputError(f"{path} is no regular file; remove it to begin anew")
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
        os.fsync(journal.fileno())
        results.truncate(0)
        sync_folder(output.parent)
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
            matched = match(done_journal, done_results, items)
            ends = done_results.tell(), done_journal.tell()
        for file, end in zip((results, journal), ends, strict=True):
            file.truncate(end)
            file.seek(end)
        return Journal(results, journal, done=matched[0], errors=matched[1])


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
            f"cannot write the result: {error.strerror}", "{resume} goes on from here"
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
            if lock(results.fileno()) is False:  # by whatever name the other one opened it
                raise OutputError(f"another process is writing {output}")
            yield results, journal
            on_error.pop_all()
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def _open_unchanged(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _parse_header(line: bytes, path: Path) -> Mapping[str, Any] | None:
    """Return the header; None if the run was killed while it was written: nothing was done."""
    if is_torn(line):
        return None
    try:
        header = parse_json(line)
        parts = header["options"], header["versions"], header["seed"]
        fits = tuple(map(type, parts)) == (dict, dict, int)
    except (ReadError, TypeError, KeyError):
        fits = False
    if not fits:
        raise OutputError(f"{path} is damaged", "remove it to begin anew without {resume}")
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
                f"the run was begun with {name} {values[0]}, now it is {values[1]}",
                "give the same, or begin anew without {resume}",
                option="resume",
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
