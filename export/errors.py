"""The exceptions of this package, apart from the modules that raise them to avoid import loops.

ExportError
├── CheckpointError   the checkpoint cannot be converted; lists every fault found
├── OutputError       the model folder cannot be written where it was asked
└── CheckError        the written graph does not compute what the checkpoint says
"""

from collections.abc import Sequence
from pathlib import Path

_FAULTS_SHOWN = 8
_FAULT_LENGTH = 300


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
