"""Turns a panic of a library written in Rust into an exception that the program can tell."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STDERR = 2


class PanicError(Exception):
    """A library written in Rust met what it takes for impossible: a damaged file, most likely."""


@contextmanager
def panics_caught() -> Iterator[None]:
    """Raise a panic in the block as PanicError; the library's report of many lines is dropped.

    pyo3's PanicException is no `Exception`, and cannot be imported. Its report goes to the file
    descriptor of stderr, which leads nowhere meanwhile, for the whole process.

    Raises:
        PanicError: with the first line of what the library says.
    """
    try:
        with _silenced():
            yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PanicError(str(error).partition("\n")[0]) from error


@contextmanager
def _silenced() -> Iterator[None]:
    try:
        kept = os.dup(_STDERR)
    except OSError:  # it is closed
        yield
        return
    try:
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDERR)
            os.close(nowhere)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
