"""Claims about texts from an argument, from files and from stdin."""

import contextlib
import os
import pathlib
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from gpt2cli.errors import PromptError, UsageError
from gpt2cli.terminal.result import refuse_overwriting
from gpt2cli.text_input import NamedText, Stdin, read_texts
from tests.gpt2cli.runner import error_line, invoke, stdin_is
from tests.model_folders import ModelFolders

DASH = pathlib.Path("-")


def read(
    argument: str | None = None,
    *files: pathlib.Path,
    stdin: int | None = None,
    wanted: bool | None = None,
    notes: list[str] | None = None,
) -> list[NamedText]:
    """Return what is read; the example is `gpt2 x`."""
    source = Stdin(stdin, wanted, ([] if notes is None else notes).append)
    return read_texts("text", argument, files, stdin=source, example="gpt2 x")


def pipe(content: bytes) -> int:
    """Return the end to read of a pipe that holds this and is closed."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a pipe that would make a reader wait for ever."""
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"a\n\n", "a\n"),
        (b"\n", ""),
        (b"a\r\n\r\n", "a\r\n"),
        (b"a\r", "a\r"),
        (b"\xef\xbb\xbfa\n", "a"),  # a byte order mark
        (b"a\xef\xbb\xbf\n", "a\ufeff"),
        (b" a\n\r", " a\n\r"),
        ("日本 👩‍🚀\n".encode(), "日本 👩‍🚀"),
        (b"a\x00b\x1b", "a\x00b\x1b"),
    ],
)
def test_one_trailing_newline_is_dropped_and_nothing_else_is_changed(
    tmp_path: pathlib.Path, raw: bytes, text: str
) -> None:
    """From a file and from stdin alike, which a dash means too, also among files."""
    file = tmp_path / "text"
    file.write_bytes(raw)
    assert read(stdin=pipe(raw)) == read("-", stdin=pipe(raw)) == [NamedText(None, text)]
    expected = [NamedText(str(file), text), NamedText("-", text)]
    assert read(None, file, DASH, stdin=pipe(raw)) == expected


@pytest.mark.parametrize("name", ["text", "-"])
def test_a_text_that_does_not_end_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    """As of /dev/zero: memory stays bounded. One of just so many bytes is taken."""
    file = DASH if name == "-" else tmp_path / name
    for content, taken in ((b"a" * 10, True), (b"a" * 11, False)):
        (tmp_path / "text").write_bytes(content)
        with contextlib.nullcontext() if taken else pytest.raises(PromptError, match="than 10 b"):
            read_texts("text", None, [file], stdin=Stdin(pipe(content)), example="", most_bytes=10)


def test_stdin_is_read_in_as_many_pieces_as_it_comes_in(tmp_path: pathlib.Path) -> None:
    """A character that is cut between two blocks comes through."""
    file = tmp_path / "long"
    text = "a" + "é" * 70_000
    file.write_text(text, encoding="utf-8")
    with file.open("rb") as stream:
        assert read(stdin=stream.fileno()) == [NamedText(None, text)]


@pytest.mark.parametrize("argument", ["", "a\n", "\r\n", "[/red] [bold]x", "--", "日本"])
def test_an_argument_is_the_text_as_it_stands_and_a_silent_pipe_is_left_alone(
    silent: int, argument: str
) -> None:
    """One line says so, unless stdin is not wanted; a device such as /dev/null has nothing."""
    notes: list[str] = []
    assert read(argument, stdin=silent, notes=notes) == [NamedText(None, argument)]
    assert [note for note in notes if "--stdin waits for it" in note] == notes != []
    with pathlib.Path(os.devnull).open("rb") as nothing:
        assert read(argument, stdin=nothing.fileno(), notes=notes) == [NamedText(None, argument)]
    assert read(argument, stdin=silent, wanted=False, notes=notes) == [NamedText(None, argument)]
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("before", "argument", "text"),
    [
        (b"a", "b", "a\nb"),
        (b"a\n", "b", "a\nb"),
        (b"a\r\n", "b", "a\r\nb"),
        (b"a\n\n", "b\n", "a\n\nb\n"),
        (b"a", "\nb", "a\nb"),
        (b"a", "b - c", "a\nb - c"),
        (b"a\n", "", "a"),
        (b"", "b", "b"),
        (b"\n", "b", "b"),
    ],
)
def test_what_stdin_holds_comes_before_an_argument(
    tmp_path: pathlib.Path, before: bytes, argument: str, text: str
) -> None:
    """On a line of its own, from a pipe, a socket and a file, unless that is not wanted."""
    file = tmp_path / "text"
    file.write_bytes(before)
    here, there = socket.socketpair()
    with file.open("rb") as stream, here, there:
        here.sendall(before)
        here.shutdown(socket.SHUT_WR)
        for stdin in (stream.fileno(), there.fileno(), pipe(before)):
            assert read(argument, stdin=stdin) == [NamedText(None, text)]
        assert read(argument, stdin=pipe(before), wanted=False) == [NamedText(None, argument)]


def test_a_pipe_that_is_slow_is_waited_for_if_it_is_wanted() -> None:
    """Also one that has begun, to its end."""
    reader, writer = os.pipe()

    def write() -> None:
        os.write(writer, b"a")
        os.close(writer)

    late = threading.Timer(0.05, write)
    late.start()
    assert read("b", stdin=reader, wanted=True) == [NamedText(None, "a\nb")]
    late.join()


@pytest.mark.parametrize(
    ("argument", "wanted", "told"),
    [
        (None, False, "expected a text"),
        ("-", False, "stdin: expected on with -"),
        (None, True, "stdin: expected no {file}"),
    ],
)
def test_what_is_asked_of_stdin_must_go_with_the_text(
    argument: str | None, wanted: bool, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(argument, *([DASH] if wanted else []), stdin=pipe(b"a"), wanted=wanted)
    assert str(caught.value).startswith(told.format(file="file"))


def test_files_come_in_their_order_and_leave_stdin_alone(
    silent: int, tmp_path: pathlib.Path
) -> None:
    first, second = tmp_path / "b", tmp_path / "a"
    first.write_bytes(b"x")
    second.write_bytes(b"y")
    expected = [NamedText(str(first), "x"), NamedText(str(second), "y")]
    assert read(None, first, second, stdin=silent) == expected


@pytest.mark.parametrize("argument", ["a", "", "-"])
def test_both_kinds_are_a_usage_error(tmp_path: pathlib.Path, argument: str) -> None:
    with pytest.raises(UsageError, match="file: expected no text argument together with it"):
        read(argument, tmp_path)


def test_no_text_is_a_usage_error_with_an_example() -> None:
    """Where stdin is closed, as on a terminal."""
    with pytest.raises(UsageError, match="expected a text, for example: gpt2 x"):
        read()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["score"], 'a text, for example: gpt2 score "The cat sat on the mat"'),
        (["tokens"], 'a text, for example: gpt2 tokens "Hello world"'),
        (["tokens", "-d"], "a text, for example: gpt2 tokens --decode 15496 995"),
        (["replay"], "a record, for example: gpt2 replay records.jsonl"),
    ],
    ids=" ".join,
)
def test_each_command_has_an_example_of_its_own_for_who_gives_nothing_on_a_terminal(
    arguments: list[str], told: str
) -> None:
    ours, theirs = os.openpty()
    with stdin_is(theirs):
        assert error_line(invoke(*arguments)) == f"expected {told}"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(("argument", "files"), [("-", []), (None, [DASH])])
def test_stdin_that_is_asked_for_and_gives_no_text_is_an_error(
    tmp_path: pathlib.Path, argument: str | None, files: list[pathlib.Path]
) -> None:
    """Closed, not UTF-8, not readable (nothing there yet, a folder): never an empty text."""
    with pytest.raises(PromptError, match="closed"):
        read(argument, *files)
    with pytest.raises(PromptError, match="stdin is not valid UTF-8"):
        read(argument, *files, stdin=pipe(b"\xff"))
    waiting, writer = os.pipe()
    os.set_blocking(waiting, False)  # as another program may have left it
    with pytest.raises(PromptError, match="stdin: Resource temporarily unavailable"):
        read(argument, *files, stdin=waiting)
    os.close(writer)
    os.close(waiting)
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(PromptError, match="stdin: Is a directory"):
        read(argument, *files, stdin=folder)
    os.close(folder)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "No such file"), ("", "Is a directory"), ("a" * 300, "File name too long")],
    ids=["missing", "folder", "long"],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    with pytest.raises(PromptError, match=reason) as caught:
        read(None, tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "index"),
    [(b"caf\xe9", 3), (b"\xed\xa0\x80", 0), (b"ab\xe2\x82", 2)],
    ids=["latin-1", "surrogate", "cut short"],
)
def test_a_file_that_is_not_utf8_is_an_error_that_names_the_byte(
    tmp_path: pathlib.Path, raw: bytes, index: int
) -> None:
    file = tmp_path / "text"
    file.write_bytes(raw)
    with pytest.raises(PromptError, match=rf"not valid UTF-8 \(byte {index}\)"):
        read(None, file)


def test_an_argument_is_utf8_in_every_locale_or_a_usage_error() -> None:
    """Python hands over bytes that it cannot decode as lone surrogates: in an ASCII locale all."""
    assert read("caf\udcc3\udca9") == [NamedText(None, "café")]
    for argument in ("\udcff", "a\udce9", "\ud800"):
        with pytest.raises(UsageError, match="the text argument is not valid UTF-8"):
            read(argument)


def test_a_result_never_takes_the_place_of_an_input(silent: int, tmp_path: pathlib.Path) -> None:
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
        refuse_overwriting(allowed, [file, tmp_path / "missing"], stdin=silent)
    refuse_overwriting(pathlib.Path("/dev/null"), [pathlib.Path("/dev/null")], stdin=None)


@pytest.mark.parametrize("command", ["generate", "score", "batch"])
def test_every_command_refuses_a_result_over_its_input(
    model_folders: ModelFolders, tmp_path: pathlib.Path, command: str
) -> None:
    """Before a model is looked for; what stood there stays."""
    file = tmp_path / "in"
    file.write_text("zz\n")
    result = invoke(command, "-m", model_folders(), "-f", file, "-o", file)
    assert result.exit_code == 2
    assert error_line(result).startswith(f"--output: {file} is the input")
    assert file.read_text() == "zz\n"
