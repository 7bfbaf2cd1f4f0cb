"""The exceptions of this package, apart from the modules that raise them; and the exit codes.

Gpt2Error                a known failure: one line, exit code 1
├── UsageError           an option or argument is wrong: exit code 2
├── PromptError          this prompt cannot be run; others can
├── ModelError           there is no such model, or it cannot be had, converted or read
│   └── HubError         the hub did not give it
├── ConversationError    a conversation's file cannot be written, read or continued
├── PackageError         an optional package is not installed
├── DeviceError          the device asked for cannot run the model
│   └── DeviceFullError  its memory is full
├── OutputError          the result cannot be written
└── ServerError          the server that was asked cannot be reached, refuses, or is lost
"""

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

Spelling = Callable[[str], str]  # an option's field -> how it is written where an error is shown

_MOST_QUOTED: Final = 60  # characters
# Messages of an import that failed for want of memory, by the dynamic loader, the system and
# Python's own C code.
_NO_MEMORY: Final = (
    "failed to map segment",
    "cannot allocate memory",
    "error return without exception set",
    "can't start new thread",
)


class ExitCode(IntEnum):
    """The exit codes that scripts rely on."""

    DONE = 0  # also where the reader of a pipe has gone
    FAILED = 1  # a known failure, or a batch with errors among its records
    USAGE = 2
    HUNG_UP = 129  # 128 + SIGHUP, as shells tell it: the terminal has been closed
    INTERRUPTED = 130  # 128 + SIGINT
    TERMINATED = 143  # 128 + SIGTERM


def shorten(text: str) -> str:
    """Return a text for an error to quote: its beginning, where it is long."""
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"


def lacks_memory(error: Exception) -> bool:
    """Tell whether an import failed because there was not enough memory."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(told in words for told in _NO_MEMORY)


class Gpt2Error(Exception):
    """Base of every known failure; `tell` returns its one-line message.

    No module below the command line knows how an option is written: `option` is a field's name, and
    in `advice` a field's name in braces stands for its option. The code that shows the error writes
    them out.
    """

    # Field -> the variable or file that set its value, if it was not set where the error is shown.
    origins: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        fault: str = "",
        advice: str = "",
        *,
        option: str | None = None,
        value: object = None,
    ) -> None:
        """`fault`: what is wrong, in plain text; `advice`: what to do; `value`: the option's."""
        super().__init__(fault, advice, option)
        self.fault = fault
        self.advice = advice
        self.option = option
        self.value = value

    def __str__(self) -> str:
        """Return the line with options by their fields, as in a record."""
        return self.tell(str)

    def tell(self, spell: Spelling) -> str:
        """Return the line: option, fault, advice."""
        value = "" if self.value is None else f" {self.value}"
        named = f"{self._origin(self.option, spell)}{value}: " if self.option else ""
        advised = f"; {_fill(self.advice, spell)}" if self.advice else ""
        return f"{named}{self._tell_fault(spell)}{advised}"

    def _tell_fault(self, spell: Spelling) -> str:
        return self.fault

    def _origin(self, field: str, spell: Spelling) -> str:
        return self.origins.get(field) or spell(field)


class UsageError(Gpt2Error):
    """An option or argument is wrong.

    Mostly an `option`, what was `expected` of it (fields of others in braces), and `found`.
    """

    def __init__(
        self,
        fault: str = "",
        advice: str = "",
        *,
        option: str | None = None,
        expected: str = "",
        found: object = None,
    ) -> None:
        super().__init__(fault, advice, option=option)
        self.expected = expected
        self.found = found

    def _tell_fault(self, spell: Spelling) -> str:
        if not self.expected:
            return self.fault
        expected = _fill(self.expected, lambda field: self._origin(field, spell))
        return f"expected {expected}{'' if self.found is None else f', found {self.found}'}"


class PromptError(Gpt2Error):
    """A prompt cannot be run; others can."""


class ModelError(Gpt2Error):
    """There is no such model, or it cannot be had, converted or read."""


class HubError(ModelError):
    """The model could not be downloaded; `fault` says why, without advice."""


class ConversationError(Gpt2Error):
    """A conversation's file cannot be written, read or continued."""


class PackageError(Gpt2Error):
    """An optional package is not installed."""


class DeviceError(Gpt2Error):
    """The device asked for cannot run the model."""


class DeviceFullError(DeviceError):
    """The device's memory is too small for what was asked; less might fit."""


class OutputError(Gpt2Error):
    """The result cannot be written."""


class ServerError(Gpt2Error):
    """The server that was asked cannot be reached, refuses, or is lost."""


def _fill(template: str, spell: Spelling) -> str:
    """Write out the options; other braces stay, as those of a folder's name."""
    return re.sub(r"\{([a-z_]+)\}", lambda field: spell(field[1]), template)
