"""The lines of a journal: a header, an entry for each result, and of a shard an ending."""

from pathlib import Path
from types import NoneType
from typing import BinaryIO, Final, NamedTuple, Self

from export.small_files import ReadError, parse_json
from gpt2cli.errors import OutputError
from gpt2cli.resumable.header import Header

# Bytes of a line, so that a file that holds none is not read whole. What is longer is torn.
LONGEST_ENTRY: Final = 1 << 24  # the header may hold a schema
LONGEST_RESULT: Final = 1 << 29
_ENTRY_TYPES: Final = (int, int, str, str, bool)


class Entry(NamedTuple):
    """One result in a journal: the number and the digests by which it is recognised."""

    number: int  # of the input record, from 0
    sample: int
    record: str  # the digest of the input record
    result: str  # the digest of the line that is written
    failed: bool  # it is an error, which its line does not show with --format text

    @classmethod
    def read(cls, journal: BinaryIO) -> Self | None:
        """Read the next entry; None at the end, or where the journal is torn."""
        found = read_line(journal)
        return found if isinstance(found, cls) else None


class Ending(NamedTuple):
    """The last line of the journal of a shard that ran to its end."""

    records: int  # of the whole input
    input: str  # its digest


def read_line(journal: BinaryIO) -> "Entry | Ending | None":
    """Read the next line of a journal after its header; None at the end, or where it is torn.

    Raises:
        OutputError: if it holds what no run writes.
    """
    line = journal.readline(LONGEST_ENTRY)
    if is_torn(line):
        return None
    found: Entry | Ending | None = None
    types: tuple[type, ...] = _ENTRY_TYPES
    try:
        values = parse_json(line)
        if isinstance(values, dict):
            found, types = Ending(**values), (int, str)
        else:
            found = Entry(*values)
    except (ReadError, TypeError):
        found = None
    if found is None or tuple(map(type, found)) != types:
        raise damaged(journal.name)
    return found


def parse_header(line: bytes, path: Path) -> Header | None:
    """Return the header; None if the run was killed while it was written: nothing was done."""
    if is_torn(line):
        return None
    try:
        header = parse_json(line)
        parts = header["options"], header["versions"], header["seed"]
        fits = tuple(map(type, parts)) in ((dict, dict, int), (dict, dict, NoneType))
    except (ReadError, TypeError, KeyError):
        fits = False
    if not fits:
        raise damaged(path)
    return header


def is_torn(line: bytes) -> bool:
    """Tell whether a kill cut a line, or a power cut left zeros in it."""
    return not line.endswith(b"\n") or b"\0" in line


def damaged(path: Path | str) -> OutputError:
    """Return the error for a journal that holds what no run writes."""
    return OutputError(f"{path} is damaged", "remove it and start over without {resume}")
