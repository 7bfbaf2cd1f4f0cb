"""Claims about text from the user."""

import os
import pathlib
from collections.abc import Iterator

import pytest

from gpt2cli.commands.text import decode_argument, read_prompt, refuse_overwriting
from gpt2cli.errors import PromptError, UsageError


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return a pipe's two ends: to read, and to write."""
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue  # the test closed it


@pytest.mark.parametrize(
    ("raw", "prompt"),
    [
        (b"", ""),
        (b"a", "a"),
        (b"a\n", "a"),
        (b"a\n\n", "a\n"),
        (b"\n", ""),
        (b"\r\n", ""),
        (b"a\r\n", "a"),
        (b"a\r\n\r\n", "a\r\n"),
        (b"a\r", "a\r"),
        (b"\xef\xbb\xbfa\n", "a"),  # a byte order mark
        (b"a\xef\xbb\xbf\n", "a\ufeff"),
        (b"a\n\r", "a\n\r"),
        (b" a ", " a "),
        ("日本 👩‍🚀\n".encode(), "日本 👩‍🚀"),
        (b"a\x00b\x1b", "a\x00b\x1b"),
    ],
)
def test_one_trailing_newline_is_dropped_and_nothing_else_is_changed(
    pipe: tuple[int, int], tmp_path: pathlib.Path, raw: bytes, prompt: str
) -> None:
    """From a file and from stdin alike."""
    reader, writer = pipe
    os.write(writer, raw)
    os.close(writer)
    file = tmp_path / "prompt"
    file.write_bytes(raw)

    assert read_prompt(None, None, stdin=reader) == prompt
    assert read_prompt(None, file, stdin=None) == prompt


@pytest.mark.parametrize(("argument", "file"), [("-", None), (None, pathlib.Path("-"))])
def test_a_dash_reads_stdin(
    pipe: tuple[int, int], argument: str | None, file: pathlib.Path | None
) -> None:
    """As the argument, and as the file."""
    reader, writer = pipe
    os.write(writer, b"a\n")
    os.close(writer)

    assert read_prompt(argument, file, stdin=reader) == "a"


def test_stdin_is_read_in_as_many_pieces_as_it_comes_in(
    pipe: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    """A character that is cut between two blocks comes through."""
    file = tmp_path / "long"
    text = "a" + "é" * 70_000
    file.write_text(text, encoding="utf-8")

    with file.open("rb") as stream:
        assert read_prompt(None, None, stdin=stream.fileno()) == text


@pytest.mark.parametrize("argument", ["", "a\n", "\r\n", "[/red] [bold]x", "--", "日本"])
def test_an_argument_is_the_prompt_as_it_stands_and_stdin_is_left_alone(
    pipe: tuple[int, int], argument: str
) -> None:
    """An open silent pipe beside it would make a reader wait for ever."""
    reader, _ = pipe

    assert read_prompt(argument, None, stdin=reader) == argument


def test_a_file_leaves_stdin_alone(pipe: tuple[int, int], tmp_path: pathlib.Path) -> None:
    """As an argument does."""
    reader, _ = pipe
    file = tmp_path / "prompt"
    file.write_bytes(b"a")

    assert read_prompt(None, file, stdin=reader) == "a"


@pytest.mark.parametrize("argument", ["a", "", "-"])
def test_two_prompts_are_a_usage_error(tmp_path: pathlib.Path, argument: str) -> None:
    """Neither wins in silence."""
    with pytest.raises(UsageError, match="not both"):
        read_prompt(argument, tmp_path, stdin=None)


def test_no_prompt_and_no_stdin_is_a_usage_error_with_an_example() -> None:
    """As on a terminal."""
    with pytest.raises(UsageError, match='gpt2 generate "'):
        read_prompt(None, None, stdin=None)


@pytest.mark.parametrize(("argument", "file"), [("-", None), (None, pathlib.Path("-"))])
def test_stdin_that_is_asked_for_and_closed_is_an_error(
    argument: str | None, file: pathlib.Path | None
) -> None:
    """It is not an empty prompt."""
    with pytest.raises(PromptError, match="closed"):
        read_prompt(argument, file, stdin=None)


def test_stdin_that_cannot_be_read_is_an_error(tmp_path: pathlib.Path) -> None:
    """A folder opens but does not read."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(PromptError, match="stdin: Is a directory"):
            read_prompt(None, None, stdin=folder)
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "No such file"),
        ("", "Is a directory"),
        ("a" * 300, "File name too long"),
    ],
    ids=["missing", "folder", "long"],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    """With the system's reason."""
    with pytest.raises(PromptError, match=reason) as caught:
        read_prompt(None, tmp_path / name, stdin=None)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "place"),
    [(b"caf\xe9", 3), (b"\xed\xa0\x80", 0), (b"ab\xe2\x82", 2)],
    ids=["latin-1", "surrogate", "cut short"],
)
def test_a_file_that_is_not_utf8_is_an_error_that_names_the_byte(
    tmp_path: pathlib.Path, raw: bytes, place: int
) -> None:
    """Nothing is replaced in silence."""
    file = tmp_path / "prompt"
    file.write_bytes(raw)

    with pytest.raises(PromptError, match=rf"not valid UTF-8 \(byte {place}\)"):
        read_prompt(None, file, stdin=None)


@pytest.mark.parametrize("argument", ["\udcff", "a\udce9", "\ud800"])
def test_an_argument_that_is_not_utf8_is_a_usage_error_that_names_it(argument: str) -> None:
    """Python hands over what it cannot decode as lone surrogates."""
    with pytest.raises(UsageError, match="--stop is not valid UTF-8"):
        decode_argument(argument, "--stop")


def test_an_argument_that_python_could_not_decode_in_an_ascii_locale_is_utf8_all_the_same() -> None:
    """There the bytes of é come as two surrogates."""
    assert decode_argument("caf\udcc3\udca9", "x") == "café"


def test_a_result_never_takes_the_place_of_an_input(
    pipe: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    """By whatever name, and as stdin; what is no file or not there is told by who opens it."""
    file, link, other = tmp_path / "in", tmp_path / "link", tmp_path / "other"
    file.write_text("x")
    other.write_text("y")
    link.symlink_to(file)
    for output in (file, link):
        with pytest.raises(UsageError, match="is the input"):
            refuse_overwriting(output, [other, file], stdin=None)
        with file.open("rb") as stdin, pytest.raises(UsageError, match="is the input"):
            refuse_overwriting(output, [], stdin=stdin.fileno())
    for allowed in (None, other, tmp_path / "new", file / "x", tmp_path / ("x" * 300)):
        refuse_overwriting(allowed, [file, tmp_path / "missing"], stdin=pipe[0])
    refuse_overwriting(pathlib.Path("/dev/null"), [pathlib.Path("/dev/null")], stdin=None)
