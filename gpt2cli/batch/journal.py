"""Output that a killed run can go on with: the file, and beside it a journal of what was done.

`FILE.resume.json` is written first: a line of JSON that says what the run was, then one line with
the digest of each input record before its results go to FILE. To resume, the results in FILE are
matched with the input record by record; an unterminated line or an incomplete group of samples is
cut off and made again.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from gpt2cli.batch.items import ItemSource
from gpt2cli.errors import OutputError, UsageError

_SUFFIX = ".resume.json"


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """What must be the same for a run to be resumed."""

    options: dict[str, Any]
    seed: int
    model: str
    revision: str | None
    source: dict[str, Any]  # what identifies a model that has no revision
    precision: str
    device: str
    versions: dict[str, str]


class Journal:
    """The two files of a run that can be resumed, open for writing at their ends."""

    def __init__(self, output: BinaryIO, journal: BinaryIO, done: int) -> None:
        self._output = output
        self._journal = journal
        self.done = done  # input records whose results are in the output

    def write(self, digest: str, results: bytes) -> None:
        """Append the results of one input record.

        Raises:
            OutputError: if they cannot be written; what was written before can be resumed.
        """
        try:
            self._journal.write(f"{json.dumps(digest)}\n".encode())
            self._output.write(results)
        except OSError as error:
            raise OutputError(
                f"cannot write the result: {error.strerror}; --resume goes on from here"
            ) from error
        self.done += 1

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


def start_output(output: Path, header: JournalHeader) -> Journal:
    """Begin a new run: its journal first, which disowns what an older run left in `output`.

    Raises:
        OutputError: if they cannot be written.
    """
    path = journal_path(output)
    try:
        journal = path.open("wb", buffering=0)
        journal.write(f"{json.dumps(asdict(header))}\n".encode())
        return Journal(output.open("wb", buffering=0), journal, 0)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def read_header(output: Path) -> JournalHeader | None:
    """Return what the run of `output` was; None if none was begun.

    Raises:
        OutputError: if the journal is damaged.
    """
    path = journal_path(output)
    try:
        with path.open("rb") as file:
            line = file.readline()
    except FileNotFoundError:
        if output.exists():
            raise OutputError(f"{output} has no {path.name} beside it to resume from") from None
        return None
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error
    if not line.endswith(b"\n"):  # killed while the first line was written: nothing was done
        return None
    try:
        return JournalHeader(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise OutputError(f"{path} is damaged: {error}; remove it and {output.name}") from error


def refuse_difference(before: JournalHeader, now: JournalHeader) -> None:
    """Refuse to resume a run that was another one.

    Raises:
        UsageError: naming what differs, with both values.
    """
    flat_before, flat_now = _flatten(before), _flatten(now)
    for name, value in flat_now.items():
        if flat_before.get(name) != value:
            raise UsageError(
                f"--resume: the run was begun with {name} {flat_before.get(name)!r}, now it is "
                f"{value!r}; give the same, or begin anew without --resume"
            )


def resume_output(output: Path, items: ItemSource) -> Journal:
    """Go on with a run: match what was done with the input, and cut off what is incomplete.

    Takes the records that are done from `items`.

    Raises:
        OutputError: if the input is not the one that was read before.
    """
    path = journal_path(output)
    try:
        output.touch()
        with path.open("rb") as journal, output.open("rb") as results:
            done = _match(journal, results, items)
            journal_size, results_size = journal.tell(), results.tell()
        os.truncate(output, results_size)
        os.truncate(path, journal_size)
        return Journal(output.open("ab", buffering=0), path.open("ab", buffering=0), done)
    except OSError as error:
        raise OutputError(f"cannot resume {error.filename or output}: {error.strerror}") from error


def _match(journal: BinaryIO, results: BinaryIO, items: ItemSource) -> int:
    """Return how many records are done; leaves both files where the next one begins."""
    done = 0
    journal.readline()  # the header
    places = (journal.tell(), results.tell())
    while (line := journal.readline()).endswith(b"\n"):
        item = items.take_next()
        if item is None:
            raise OutputError(f"--resume: the input has {done} records, more were done before")
        if json.dumps(item.digest).encode() != line.strip():
            raise OutputError(f"--resume: record {done} of the input is not the one of before")
        if not all(results.readline().endswith(b"\n") for _ in range(item.results)):
            items.give_back(item)
            break
        done += 1
        places = (journal.tell(), results.tell())
    journal.seek(places[0])
    results.seek(places[1])
    return done


def _flatten(header: JournalHeader) -> dict[str, Any]:
    """Return the header's values by the names that the user knows them by."""
    values = asdict(header)
    return {**values.pop("options"), **values.pop("versions"), **values}
