"""Claims about where a chat's messages and commands come from."""

import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input

from gpt2cli.chat.input import ChatInput, Entry, LineInput, read_entry
from gpt2cli.chat.prompt import PromptInput
from gpt2cli.chat.run import open_input
from gpt2cli.errors import PromptError
from gpt2cli.terminal.notes import Notes

posix = pytest.mark.skipif(sys.platform == "win32", reason="terminals and modes of POSIX")

CONVERT = "convert it, for example with `iconv -f latin1 -t UTF-8`"

_ENTER, _ALT_ENTER, _CTRL_C, _CTRL_D, _UP = "\r", "\x1b\r", "\x03", "\x04", "\x1b[A"


def message(text: str) -> Entry:
    return Entry(text, is_command=False)


def command(text: str) -> Entry:
    return Entry(text, is_command=True)


def read_all(source: ChatInput) -> list[Entry | str]:
    entries: list[Entry | str] = []
    while True:
        try:
            entry = source.read()
        except PromptError as error:
            entries.append(f"{source.position}{error}")
            continue
        if entry is None:
            return entries
        entries.append(entry)


@pytest.fixture
def read_script(tmp_path: pathlib.Path) -> Iterator[Callable[[bytes], list[Entry | str]]]:
    """Return the function that reads a script to its end."""
    opened: list[int] = []

    def read(script: bytes) -> list[Entry | str]:
        (tmp_path / "script").write_bytes(script)
        opened.append(os.open(tmp_path / "script", os.O_RDONLY))
        return read_all(LineInput(opened[-1]))

    yield read
    for descriptor in opened:
        os.close(descriptor)


ReadScript = Callable[[bytes], list[Entry | str]]


# Scripts


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (b"", []),
        (b"\n \n\t\r\n", []),
        (b"\xef\xbb\xbfa\nb\n", [message("a"), message("b")]),
        (b"a\r\nb\r\n", [message("a"), message("b")]),
        (b"  a b  \n", [message("a b")]),
        ("é 🦊\n".encode(), [message("é 🦊")]),
        (b"/set top-k 4 \n/exit", [command("/set top-k 4"), command("/exit")]),
        (b" /usr is a folder\n", [message("/usr is a folder")]),
    ],
)
def test_each_line_of_a_script_is_an_entry(
    read_script: ReadScript, script: bytes, expected: list[Entry]
) -> None:
    """Empty ones are none; a slash at the very beginning makes a command."""
    assert read_script(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (b'"""one\ntwo"""\nx\n', ["one\ntwo", "x"]),
        (b'"""\none\n\n two\n"""\nx\n', ["one\n\n two", "x"]),
        (b'  """one\r\ntwo"""  \r\nx\n', ["one\ntwo", "x"]),
        (b'"""\n/help\n"""\n', ["/help"]),
        (b'""""""\nx\n', ["x"]),
        (b'"""\n  \n"""\nx\n', ["x"]),
        (b'"""a "" b""" c"""\n', ['a "" b""" c']),
        (b'say """a\nb\n', ['say """a', "b"]),
        (b'x\n"""one\ntwo\n', ["x", "one\ntwo"]),
    ],
)
def test_three_quotes_hold_lines_together(
    read_script: ReadScript, script: bytes, expected: list[str]
) -> None:
    """To the next three at the end of a line, or to the end of the script; never a command."""
    assert read_script(script) == [message(text) for text in expected]


def test_what_is_no_utf8_is_an_error_that_names_its_line(read_script: ReadScript) -> None:
    assert read_script(b"a\nb\xff\n\n/c\xff\nd\n") == [
        message("a"),
        f"line 2: it is not valid UTF-8 (byte 1); {CONVERT}",
        f"line 4: it is not valid UTF-8 (byte 2); {CONVERT}",
        message("d"),
    ]


def test_within_quotes_it_takes_the_whole_message_with_it(read_script: ReadScript) -> None:
    """The rest of the message is not taken for other messages."""
    assert read_script(b'"""\na\n\xff\nb\n"""\nc\n') == [
        f"line 5: it is not valid UTF-8 (byte 2); {CONVERT}",
        message("c"),
    ]


@posix
def test_a_line_is_read_as_soon_as_it_is_there() -> None:
    """Another process may wait for its answer."""
    reader, writer = os.pipe()
    source = LineInput(reader)
    with os.fdopen(writer, "wb", buffering=0) as pipe:
        pipe.write(b"a\nb")
        assert source.has_more()
        assert source.read() == message("a")
        later = threading.Timer(0.05, pipe.write, [b"c\n"])
        later.start()
        assert source.read() == message("bc")
        later.join()
    assert source.read() is None
    os.close(reader)


@pytest.mark.parametrize(("script", "more"), [(b"", False), (b"\n", True), (b"a", True)])
def test_it_is_known_whether_there_is_anything(
    tmp_path: pathlib.Path, script: bytes, more: bool
) -> None:
    (tmp_path / "script").write_bytes(script)
    with (tmp_path / "script").open("rb") as file:
        source = LineInput(file.fileno())
        assert (source.has_more(), source.has_more()) == (more, more)
        assert len(read_all(source)) == len(script.strip())


@posix
def test_what_cannot_be_read_is_an_error(tmp_path: pathlib.Path) -> None:
    """`gpt2 chat < folder`: with the system's reason."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(PromptError, match="cannot read stdin: Is a directory"):
        LineInput(descriptor).has_more()
    os.close(descriptor)


def test_a_line_that_does_not_end_is_an_error() -> None:
    """As of /dev/zero: memory stays bounded, and nothing comes after it."""
    reader, writer = os.pipe()
    os.write(writer, b"hi\n" + b"\0" * 11)
    os.close(writer)
    source = LineInput(reader, most_bytes=10)
    with pytest.raises(PromptError, match="stdin has a line of more than 10 bytes"):
        source.read()
    assert source.read() is None
    os.close(reader)


def test_a_message_of_many_lines_that_does_not_end_is_an_error() -> None:
    """As where its three quotes are never closed."""
    with pytest.raises(PromptError, match="the message has more than 10 characters"):
        read_entry(lambda continued: "abc" if continued else '"""', longest=10)


def test_a_file_is_read_by_lines(tmp_path: pathlib.Path) -> None:
    """Where nobody types, nothing of the prompt line is needed."""
    (tmp_path / "script").touch()
    with (tmp_path / "script").open("rb") as file:
        source = open_input(file.fileno(), Notes())
    assert (source.on_terminal, source.position) == (False, "line 0: ")


def test_lines_that_came_at_once_are_a_message() -> None:
    """Whatever they begin with: nobody pastes a command of several lines."""
    assert read_entry(lambda continued: "/help\nme") == message("/help\nme")
    assert read_entry(lambda continued: "/help\n") == command("/help")
    assert read_entry(lambda continued: '"""a\nb"""') == message("a\nb")


def test_it_is_told_whether_a_line_goes_on() -> None:
    """So that the prompt can show it."""
    told: list[bool] = []
    lines = iter(["", '"""', "a", '"""'])

    def ask(continued: bool) -> str:
        told.append(continued)
        return next(lines)

    assert read_entry(ask) == message("a")
    assert told == [False, False, True, True]


# The prompt line; Tab completes in time that a test here cannot know: see tests/e2e


class Person:
    """Types at a prompt line that nobody sees."""

    def __init__(self, keyboard: PipeInput, folder: pathlib.Path) -> None:
        self._keyboard = keyboard
        self.history_file = folder / "state" / "history"
        self.source = self.begin()

    def begin(self) -> PromptInput:
        """Open another prompt line with the same history."""
        return PromptInput(0, Notes(), history_file=self.history_file)

    def type(self, keys: str) -> Entry | None:
        """Return what is read when these keys are pressed."""
        self._keyboard.send_bytes(keys.encode("utf-8", "surrogateescape"))
        return self.source.read()


@pytest.fixture
def person(tmp_path: pathlib.Path) -> Iterator[Person]:
    with create_pipe_input() as keyboard, create_app_session(input=keyboard):
        yield Person(keyboard, tmp_path)


@pytest.mark.parametrize(
    ("keys", "entry"),
    [
        (f"helo\x7flo worl\x17fox{_ENTER}", message("hello fox")),
        (f"/show{_ENTER}", command("/show")),
        (f"{_ENTER} {_ENTER}x{_ENTER}", message("x")),
        (f"a{_ALT_ENTER}b{_ENTER}", message("a\nb")),
        (f'"""a{_ENTER}{_ENTER}b"""{_ENTER}', message("a\n\nb")),
        # Bracketed paste tells a paste of several lines from typing (shell_gpt#505).
        (f"\x1b[200~/one\r\ntwo\r\nthree\r\n\x1b[201~{_ENTER}", message("/one\ntwo\nthree")),
        # A terminal without it sends a pasted colour so; to prompt_toolkit it is a mouse.
        *(
            (f"a{sequence}b{_ENTER}", message("ab"))
            for sequence in ("\x1b[31m", "\x1b[0;1m", "\x1b[<1;1m", "\x1b[Mabc")
        ),
        # Ctrl-D leaves on an empty line; elsewhere it deletes, as in a shell.
        (f"ab\x02{_CTRL_D}{_ENTER}", message("a")),
        (_CTRL_D, None),
    ],
)
def test_what_is_typed_is_an_entry(person: Person, keys: str, entry: Entry | None) -> None:
    assert person.type(keys) == entry


def test_ctrl_c_forgets_what_was_typed(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    """Also between three quotes; a note says how to leave."""
    typed = f'abc{_CTRL_C}"""d{_ENTER}e{_CTRL_C}f{_ENTER}'
    assert person.type(typed) == message("f")
    assert capsys.readouterr().err == 2 * "gpt2: Ctrl-D or /exit leaves\n"


def test_what_was_typed_comes_again_also_in_the_next_chat(person: Person) -> None:
    """Several lines as one; the file is for the user alone."""
    person.type(f"a{_ALT_ENTER}é{_ENTER}")
    person.type(f"b{_ENTER}")
    assert person.type(f"{_UP}{_UP}{_ENTER}") == message("a\né")
    person.source = person.begin()
    assert person.type(f"{_UP}{_ENTER}") == message("a\né")
    if sys.platform != "win32":
        assert person.history_file.stat().st_mode & 0o777 == 0o600
        assert person.history_file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["a file for its folder", "a folder", "damaged"])
def test_a_history_that_cannot_be_used_is_done_without(
    person: Person, tmp_path: pathlib.Path, kind: str
) -> None:
    person.history_file = tmp_path / kind
    if kind == "a folder":
        person.history_file.mkdir()
    elif kind == "damaged":
        person.history_file.write_bytes(b"\xff\x00+\n+\xff\n++\n")
    else:
        (tmp_path / "file").touch()
        person.history_file = tmp_path / "file" / "history"
    person.source = person.begin()
    assert person.type(f"a{_ENTER}") == message("a")
    assert person.type(f"{_UP}{_ENTER}") == message("a")


def test_a_history_that_is_lost_in_the_midst_is_done_without(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a disk that fills up."""
    person.type(f"a{_ENTER}")
    person.history_file.unlink()
    person.history_file.parent.rmdir()
    assert person.type(f"b{_ENTER}") == message("b")
    assert person.type(f"{_UP}{_ENTER}") == message("b")
    assert "Press ENTER" not in capsys.readouterr().out


def test_bytes_that_are_no_utf8_can_be_typed(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who takes the message says what is wrong with it; history keeps what it can."""
    entry = person.type(f"a\udcff{_ENTER}")
    assert entry == message("a\udcff")
    assert person.type(f"b{_ENTER}") == message("b")
    assert "Press ENTER" not in capsys.readouterr().out
