"""What a journal says of each result, as a line of JSON."""

import hashlib
import json
from typing import BinaryIO, Final, NamedTuple, Self

from export.small_files import ReadError, parse_json
from gpt2cli.errors import OutputError

_TYPES: Final = (int, int, str, str, bool)


class Entry(NamedTuple):
    """One result, known by its place and its digest."""

    number: int  # of the input record, from 0
    sample: int
    record: str  # the digest of the input record
    result: str  # the digest of the line that is written
    failed: bool  # it is an error, which a line of text would not tell

    def format(self) -> bytes:
        """Return the line."""
        return f"{json.dumps(self)}\n".encode()

    @classmethod
    def read(cls, journal: BinaryIO) -> Self | None:
        """Read the next entry; None at the end, or where the journal is torn.

        Raises:
            OutputError: if the next line is no entry.
        """
        line = journal.readline()
        if is_torn(line):
            return None
        try:
            entry = cls(*parse_json(line))
        except (ReadError, TypeError):
            entry = None
        if entry is None or tuple(map(type, entry)) != _TYPES:
            raise damaged(journal)
        return entry


def digest(data: bytes) -> str:
    """Return what a record or a line of the output is known by."""
    return hashlib.sha256(data).hexdigest()[:16]


def is_torn(line: bytes) -> bool:
    """Tell whether a kill cut a line, or a power cut left zeros in it."""
    return not line.endswith(b"\n") or b"\0" in line


def damaged(journal: BinaryIO) -> OutputError:
    """Return the error of a journal that says what no run wrote."""
    return OutputError(f"{journal.name} is damaged", "remove it to begin anew without {resume}")
