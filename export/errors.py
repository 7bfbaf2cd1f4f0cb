"""The exceptions of this package, and how they are put into words.

ExportError
├── CheckpointError   the checkpoint cannot be converted; lists every fault found
├── OutputError       the model folder cannot be written where it was asked
└── CheckError        the written graph does not compute what the checkpoint says
PanicError            a library written in Rust panicked
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_FAULTS_SHOWN = 8
_FAULT_LENGTH = 300
_NAMES_SHOWN = 4

# Held by who redirects stdout or stderr for the whole process, and by who has to reach them: else
# what one thread writes would be lost while another one loads a tokenizer.
STREAMS: Final = threading.RLock()


class ExportError(Exception):
    """Base of every known failure; its text is one line for the user."""


class CheckpointError(ExportError):
    """The checkpoint cannot be converted.

    `faults` holds every reason, one sentence each; the text joins the first of them.
    """

    def __init__(self, folder: Path, faults: Sequence[str]) -> None:
        self.faults = tuple(as_one_line(fault) for fault in faults)
        shown = "; ".join(self.faults[:_FAULTS_SHOWN])
        more = len(self.faults) - _FAULTS_SHOWN
        super().__init__(f"{folder}: {shown}" + (f"; and {more} more faults" if more > 0 else ""))


class OutputError(ExportError):
    """The model folder cannot be written where it was asked."""


class CheckError(ExportError):
    """The written graph does not compute what the checkpoint says."""


def as_one_line(text: str) -> str:
    """Return a fault or note as printable text: names in a checkpoint may hold any character."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _FAULT_LENGTH else f"{shown[:_FAULT_LENGTH]}…"


def list_some(names: Sequence[str]) -> str:
    """Return the first of some names in words, and how many more there are."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


class PanicError(Exception):
    """A library written in Rust panicked, most likely because of a damaged file."""


@contextmanager
def panics_caught() -> Iterator[None]:
    """Raise a panic in the block as PanicError; the library's report of many lines is dropped.

    pyo3's PanicException is no `Exception`, and cannot be imported. Its report goes to the file
    descriptor of stderr.
    """
    try:
        with Path(os.devnull).open("wb") as nowhere, redirected([2], nowhere.fileno()):
            yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PanicError(str(error).partition("\n")[0]) from error


@contextmanager
def redirected(numbers: Sequence[int], target: int) -> Iterator[None]:
    """Send what is written to these file descriptors to another one in the block.

    It holds for the whole process, in whatever language it writes; closed ones are closed again.
    Other threads wait with what they have to write there (`STREAMS`).
    """
    kept: dict[int, int | None] = {}
    with STREAMS:
        try:
            for number in numbers:
                saved = None
                with suppress(OSError):  # it is closed
                    saved = os.dup(number)
                kept[number] = saved
                os.dup2(target, number)
            yield
        finally:
            for number, saved in kept.items():
                if saved is None:
                    os.close(number)
                else:
                    os.dup2(saved, number)
                    os.close(saved)
