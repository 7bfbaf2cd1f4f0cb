"""The exceptions of this package, apart from the modules that raise them to avoid import loops.

Gpt2Error                a known failure: one line, exit code 1
├── UsageError           the command line asks for something that cannot be: exit code 2
├── PromptError          this prompt cannot be run; others can
├── ModelError           there is no such model, or it cannot be had, converted or read
│   └── HubError         the hub did not give it
├── ConversationError    a conversation's file cannot be written, or gone on with
├── PackageError         an optional package is not installed
├── DeviceError          the device asked for cannot run the model
│   └── DeviceFullError  its memory is full
└── OutputError          the result cannot be written
"""

from typing import Final

_MOST_QUOTED: Final = 60  # characters
# What an import fails with: words of the dynamic loader, of the system, and of Python's own C code.
_NO_MEMORY: Final = (
    "failed to map segment",
    "cannot allocate memory",
    "error return without exception set",
    "can't start new thread",
)


def shorten(text: str) -> str:
    """Return a text for an error to quote: its beginning, where it is long."""
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"


def lacks_memory(error: Exception) -> bool:
    """Tell whether an import has failed since memory does not hold the module."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(told in words for told in _NO_MEMORY)


class Gpt2Error(Exception):
    """Base of every known failure; its text is one line for the user."""


class UsageError(Gpt2Error):
    """The command line asks for something that cannot be."""


class PromptError(Gpt2Error):
    """A prompt cannot be run; others can."""


class ModelError(Gpt2Error):
    """There is no such model, or it cannot be had, converted or read."""


class HubError(ModelError):
    """The hub did not give the model; `reason` says why, without what the user may do."""

    def __init__(self, reason: str, advice: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}; {advice}" if advice else reason)


class ConversationError(Gpt2Error):
    """A conversation's file cannot be written, or holds none that could be gone on with."""


class PackageError(Gpt2Error):
    """An optional package is not installed."""


class DeviceError(Gpt2Error):
    """The device asked for cannot run the model."""


class DeviceFullError(DeviceError):
    """The device's memory does not hold what was asked of it; less might do."""


class OutputError(Gpt2Error):
    """The result cannot be written."""
