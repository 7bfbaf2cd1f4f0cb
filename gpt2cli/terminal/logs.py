"""The log of a run: what --verbose tells on stderr, and what --log-file adds to a file.

It never holds a prompt, a completion or a key, nor a text among the options, unless an error quotes
that.
"""

import logging
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from gpt2cli.config import ReportConfig
from gpt2cli.declarations import Option
from gpt2cli.errors import Gpt2Error, OutputError, UsageError
from gpt2cli.option_kinds import BIAS, PATTERN, SCHEMA, TEXT
from gpt2cli.settings import Given, Settings
from gpt2cli.terminal.notes import LOGGER, PROGRAM, TOLD, make_safe, write_line

_TEXTS: Final = (TEXT, PATTERN, SCHEMA, BIAS)  # kinds of options that may hold a user's text
_FILES: Final = ("output", "file", "session")  # that are not to be the log


@contextmanager
def log_opened(settings: Settings, command: str) -> Iterator[None]:
    """Log to where the settings say while a command runs: how it began, and how it ended.

    Raises:
        OutputError: if the file cannot be written.
        UsageError: if it is one that the command reads or writes.
    """
    report = settings.make(ReportConfig)
    handlers: list[logging.Handler] = [_StderrHandler()] if report.verbose else []
    if report.log_file is not None:
        handlers.append(_open_file(report.log_file, settings.values))
    if not handlers:
        yield
        return
    logger = logging.getLogger(LOGGER)
    with ExitStack() as stack:
        for handler in handlers:
            stack.callback(handler.close)
            stack.callback(logger.removeHandler, handler)
            logger.addHandler(handler)
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.DEBUG)
        _log_begin(logger, settings, command)
        with _log_end(logger):
            yield


def _log_begin(logger: logging.Logger, settings: Settings, command: str) -> None:
    system = f"Python {platform.python_version()} on {platform.platform(aliased=True)}"
    logger.info("%s %s, %s: %s", PROGRAM, metadata.version(PROGRAM), system, command)
    options = settings.options
    told = [
        f"{field} {_show(option, settings.given[field])}"
        for field, option in options.items()
        if field in settings.given
    ]
    logger.info("options: %s", ", ".join(told) or "none was given")


def _show(option: Option, given: Given) -> str:
    """Return a value and its origin; of texts and secrets only how many there are."""
    values = given.value if option.repeatable else (given.value,)
    shown = " ".join("on" if v is True else "off" if v is False else str(v) for v in values)
    if option.secret or option.kind in _TEXTS:
        shown = f"{len(values)} not shown"
    return f"{shown} ({given.origin or 'command line'})"


@contextmanager
def _log_end(logger: logging.Logger) -> Iterator[None]:
    started = time.monotonic()
    outcome = "done"
    try:
        yield
    except Gpt2Error as error:
        logger.log(TOLD, "error: %s", error)
        outcome = "failed"
        raise
    except BaseException as error:
        code = getattr(error, "exit_code", None)
        outcome = type(error).__name__ if code is None else f"exit code {int(code)}"
        raise
    finally:
        logger.info("ended after %.3f s: %s", time.monotonic() - started, outcome)


class _StderrHandler(logging.Handler):
    """Writes to stderr what does not stand there anyway, with the seconds since the start."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._started = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        seconds = time.monotonic() - self._started
        write_line(f"{PROGRAM}: [{seconds:.3f} s] {record.getMessage()}")


class _FileHandler(logging.FileHandler):
    """Adds lines to a file, each whole at once; what cannot be written is told once."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line: when, which process, and what."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        text = make_safe(" ".join(record.getMessage().split()))
        return f"{when} {os.getpid()} {text}"

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Go on without the log: a full disk there is no reason to lose the result."""
        del record
        if self.level <= logging.CRITICAL:
            self.setLevel(logging.CRITICAL + 1)
            write_line(f"{PROGRAM}: cannot write {self.baseFilename} any more")

    def close(self) -> None:
        """Close the file; what it lacks was told."""
        with suppress(OSError):
            super().close()


def _open_file(path: Path, values: Mapping[str, Any]) -> logging.Handler:
    for field in _FILES:
        other = values.get(field)
        if isinstance(other, Path) and other.resolve() == path.resolve():
            raise UsageError(option="log_file", expected=f"another file than {{{field}}}")
    try:
        return _FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}", option="log_file") from error
