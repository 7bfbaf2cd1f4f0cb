"""Finds out what of a run is done: matches its output with its journal and its input."""

from typing import BinaryIO, Final

from gpt2cli.batch.entries import Entry, damaged, digest, is_torn
from gpt2cli.batch.items import BatchItem, ItemSource
from gpt2cli.errors import OutputError

_SAME_INPUT: Final = "give the same input, or leave out {resume} to begin anew"


def match(journal: BinaryIO, results: BinaryIO, items: ItemSource) -> tuple[int, int]:
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
            fault = f"the input has {done} records, more were begun before"
            raise OutputError(fault, _SAME_INPUT, option="resume")
        failed = _match_record(item, entry, journal, results, line_number=lines + 1)
        if failed is None:
            items.give_back(item)
            break
        done += 1
        errors += failed
        lines += item.results
        ends = (results.tell(), journal.tell())
    results.seek(ends[0])
    journal.seek(ends[1])
    return done, errors


def _match_record(
    item: BatchItem, first: Entry, journal: BinaryIO, results: BinaryIO, *, line_number: int
) -> bool | None:
    """Return whether a record with this first entry is an error; None if it is not all there."""
    failed = False
    for sample in range(item.results):
        entry = Entry.read(journal) if sample else first
        if entry is None:
            return None
        if entry.record != item.digest:
            fault = f"record {item.index} of the input is not the one of before"
            raise OutputError(fault, _SAME_INPUT, option="resume")
        if (entry.number, entry.sample) != (item.index, sample):
            raise damaged(journal)
        line = results.readline()
        if digest(line) != entry.result:
            if is_torn(line) or _is_known(line, journal):
                return None
            raise OutputError(
                f"line {line_number + sample} of {results.name} is not what the run wrote",
                "remove it (what is missing is made again), or leave out {resume} to begin anew",
                option="resume",
            )
        failed |= entry.failed
    return failed


def _is_known(line: bytes, journal: BinaryIO) -> bool:
    """Tell whether a line is a later result: what stood before it is missing."""
    wanted = digest(line)
    while (entry := Entry.read(journal)) is not None:
        if entry.result == wanted:
            return True
    return False
