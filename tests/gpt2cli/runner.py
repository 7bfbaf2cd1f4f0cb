"""Runs commands in this process; what the application does not know as a failure is raised."""

import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from gpt2cli.app import app

_STDIN: Final = 0

# Typer 0.28 builds all commands anew for each call, which takes longer than most of them run.
typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]


def invoke(*arguments: str | os.PathLike[str]) -> Result:
    """Run `gpt2` with these arguments; an unknown exception is the test's failure."""
    return CliRunner().invoke(app, [os.fspath(a) for a in arguments], catch_exceptions=False)


def error_line(result: Result) -> str:
    """Return the one line of stderr without its beginning; stdout must be empty."""
    assert result.stdout == ""
    assert result.stderr.startswith("gpt2: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("gpt2: error: ").rstrip("\n")


@contextmanager
def stdin_is(descriptor: int) -> Iterator[None]:
    """Let this process's own stdin be a copy of this descriptor."""
    before = os.dup(_STDIN)
    os.dup2(descriptor, _STDIN)
    try:
        yield
    finally:
        os.dup2(before, _STDIN)
        os.close(before)


@contextmanager
def stdin_of(data: bytes) -> Iterator[None]:
    """Let this process's own stdin be a file that holds `data`."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with stdin_is(file.fileno()):
            yield
