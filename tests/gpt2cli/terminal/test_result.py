"""Claims about where the result goes."""

import errno
import io
import os
import pathlib
import stat
import sys
from typing import Any

import pytest

from gpt2cli.errors import OutputError
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter, open_result

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and pipes of POSIX")


class Broken(io.BytesIO):
    """A file that fails at every write."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, data: object) -> int:
        raise self._error


class Partial(io.BytesIO):
    """An unbuffered file that takes three bytes at a time."""

    def write(self, data: Any) -> int:
        return super().write(data[:3])


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def shown(prompt: str, text: str) -> str:
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=True)
    writer.write_prompt(prompt)
    writer.write(text)
    return file.getvalue().decode()


def test_a_terminal_gets_the_prompt_in_bold_and_all_of_it_safe() -> None:
    """An escape sequence of the model's own is shown, not sent."""
    assert shown("a\x1b", "b\x1b[1m\r") == "\x1b[1ma␛\x1b[22mb␛[1m␍"
    assert shown("", "b") == "b"


def test_what_a_file_takes_only_in_part_is_written_to_the_end() -> None:
    """A nearly full disk or a slow device takes less than it is given, without an error."""
    file = Partial()
    ResultWriter(file, on_terminal=False).write("twelve bytes")
    assert file.getvalue() == b"twelve bytes"


def test_elsewhere_bytes_are_untouched() -> None:
    """Controls and markup go through as UTF-8, in which a lone surrogate is a question mark."""
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=False)
    writer.write_prompt("[b]\x1b\r")
    writer.write("é\x9b\u202e\udcff\n")
    assert file.getvalue() == "[b]\x1b\ré\x9b\u202e?\n".encode()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_bold_can_be_unwanted_and_text_stays_safe(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """By https://no-color.org, or by a terminal that knows nothing."""
    monkeypatch.setenv("NO_COLOR", "")  # says nothing
    assert shown("a", "b") == "\x1b[1ma\x1b[22mb"
    monkeypatch.setenv(name, value)
    assert shown("a\x1b", "b\x1b") == "a␛b␛"


def test_each_piece_is_there_at_once(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        ResultWriter(file, on_terminal=False).write("a")
        assert (tmp_path / "out").read_bytes() == b"a"


def test_a_reader_who_left_is_told_from_other_failures() -> None:
    """The one ends the program quietly, the others are errors with the system's reason."""
    gone = Broken(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    full = Broken(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(BrokenPipeError):
        ResultWriter(gone, on_terminal=False).write("a")
    with pytest.raises(OutputError, match="cannot write the result: No space left on device"):
        ResultWriter(full, on_terminal=False).write("a")


@posix
def test_a_pipe_is_abandoned_when_its_reader_has_left() -> None:
    """It is seen without writing."""
    reader, writer_end = os.pipe()
    with os.fdopen(writer_end, "wb") as file:
        writer = ResultWriter(file, on_terminal=False)
        before = writer.is_abandoned()
        os.close(reader)
        assert (before, writer.is_abandoned()) == (False, True)


def test_a_file_is_never_abandoned(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert not ResultWriter(file, on_terminal=False).is_abandoned()
    assert not ResultWriter(io.BytesIO(), on_terminal=False).is_abandoned()


def test_a_file_appears_at_the_end_and_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with open_result(path) as writer:
        writer.write_prompt("a\x1b")
        writer.write("b")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"a\x1bb"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OutputError, SystemExit])
def test_a_file_that_was_not_finished_is_as_it_was(
    tmp_path: pathlib.Path, error: type[BaseException]
) -> None:
    path = tmp_path / "out"
    with pytest.raises(error), open_result(path):
        raise error
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    with pytest.raises(error), open_result(path) as writer:
        writer.write("new")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_replaced_file_keeps_its_mode(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out"
    path.touch(mode=0o600)
    with open_result(path) as writer:
        writer.write("a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: pathlib.Path) -> None:
    """Also where that file is in another folder, or is not there yet."""
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to("folder/out")
    for text in ("a", "b"):
        with open_result(link) as writer:
            writer.write(text)
        assert (folder / "out").read_text() == text
        assert link.is_symlink()


@posix
def test_an_open_descriptor_is_appended_to_not_replaced(tmp_path: pathlib.Path) -> None:
    """As /dev/stdout is, when it is a file that others write too."""
    path = tmp_path / "log"
    path.write_text("old ")
    with path.open("ab") as log, open_result(pathlib.Path(f"/dev/fd/{log.fileno()}")) as writer:
        writer.write("new")
    assert path.read_text() == "old new"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_device_is_written_directly() -> None:
    """Nothing is renamed over it."""
    with open_result(pathlib.Path("/dev/null")) as writer:
        writer.write("a")
    assert stat.S_ISCHR(pathlib.Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/out", "No such file or directory"),
        (".", "Is a directory"),
        ("a" * 300, "File name too long"),
    ],
    ids=["missing", "folder", "long"],
)
def test_a_place_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    """With the system's reason; nothing is left behind."""
    with pytest.raises(OutputError, match=reason) as caught:
        open_result(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_vanishes_meanwhile_is_an_error_at_the_end(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OutputError, match="cannot write"), open_result(folder / "out") as writer:
        writer.write("a")
        folder.rename(tmp_path / "elsewhere")


def test_a_result_file_that_ctrl_c_cuts_short_may_be_kept(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a note that says where it is; where nothing was written, what stood there stays."""
    file = tmp_path / "out"
    file.write_text("old")
    with pytest.raises(KeyboardInterrupt), open_result(file) as writer:
        writer.keep(Notes())
        raise KeyboardInterrupt
    assert (file.read_text(), capsys.readouterr().err) == ("old", "")
    with pytest.raises(KeyboardInterrupt), open_result(file) as writer:
        writer.write("part")
        writer.keep(Notes())
        raise KeyboardInterrupt
    assert file.read_text() == "part"
    assert capsys.readouterr().err == f"gpt2: interrupted; what was made so far is in {file}\n"
    assert list(tmp_path.iterdir()) == [file]


class _Stdout(io.TextIOWrapper):
    """A stdout that is, or is not, a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        self.written = io.BytesIO()
        self._terminal = terminal
        super().__init__(self.written)

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("data", "piped", "shown"),
    [(b"", b"", ""), (b"a\n", b"a\n", "a\n"), (b"\xe6\x97\x1b", b"\xe6\x97\x1b", "�␛\n")],
)
def test_a_pipe_gets_the_bytes_and_a_terminal_whole_safe_lines(
    monkeypatch: pytest.MonkeyPatch, data: bytes, piped: bytes, shown: str
) -> None:
    """The shell's prompt then begins a line of its own."""
    for terminal, expected in ((False, piped), (True, shown.encode())):
        stdout = _Stdout(terminal=terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        with open_result(None) as writer:
            writer.write_bytes(data)
        assert stdout.written.getvalue() == expected


def test_a_closed_stdout_is_a_known_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="stdout is closed"):
        open_result(None)
