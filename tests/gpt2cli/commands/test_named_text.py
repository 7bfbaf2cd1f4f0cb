"""Claims about texts from an argument, from files and from stdin."""

import os
import pathlib

import pytest

from gpt2cli.commands.named_text import NamedText, read_texts
from gpt2cli.errors import PromptError, UsageError


def read(
    argument: str | None = None, *files: pathlib.Path, stdin: int | None = None
) -> list[NamedText]:
    """Return what is read; the example is `gpt2 x`."""
    return read_texts(argument, files, stdin=stdin, example="gpt2 x")


def pipe(content: bytes) -> int:
    """Return the end to read of a pipe that holds this and is closed."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


@pytest.mark.parametrize("text", ["", "a\n", "\r\n", "[/red] [bold]x", "日本"])
def test_an_argument_is_the_text_as_it_stands(text: str) -> None:
    """It has no name, and stdin is left alone: there is none here."""
    assert read(text) == [NamedText(None, text)]


def test_files_come_in_their_order_with_their_names(tmp_path: pathlib.Path) -> None:
    """One trailing newline is dropped of each."""
    first, second = tmp_path / "b", tmp_path / "a"
    first.write_bytes(b"x\n\n")
    second.write_bytes(b"y")
    expected = [NamedText(str(first), "x\n"), NamedText(str(second), "y")]
    assert read(None, first, second) == expected


@pytest.mark.parametrize("argument", [None, "-"])
def test_stdin_is_read_where_no_text_is_given_and_for_a_dash(argument: str | None) -> None:
    """One trailing newline is dropped; it has no name."""
    assert read(argument, stdin=pipe(b"a\n\n")) == [NamedText(None, "a\n")]


def test_stdin_may_stand_among_files(tmp_path: pathlib.Path) -> None:
    """By its name, a dash."""
    file = tmp_path / "a"
    file.write_bytes(b"x")
    texts = read(None, file, pathlib.Path("-"), stdin=pipe(b"y"))
    assert texts == [NamedText(str(file), "x"), NamedText("-", "y")]


def test_both_kinds_are_a_usage_error(tmp_path: pathlib.Path) -> None:
    """Neither wins in silence."""
    with pytest.raises(UsageError, match="not both"):
        read("a", tmp_path)


def test_no_text_is_a_usage_error_with_an_example() -> None:
    """As where stdin is a terminal."""
    with pytest.raises(UsageError, match="expected a text, for example: gpt2 x"):
        read()


def test_an_argument_that_is_no_utf8_is_a_usage_error() -> None:
    """As Python gives bytes that it could not decode."""
    with pytest.raises(UsageError, match="the text argument is not valid UTF-8"):
        read("a\udcff")


@pytest.mark.parametrize("stdin", [None, b"\xff"], ids=["closed", "no text"])
def test_stdin_that_gives_no_text_is_an_error(stdin: bytes | None) -> None:
    """Not an empty text."""
    with pytest.raises(PromptError, match="stdin"):
        read("-", stdin=None if stdin is None else pipe(stdin))
