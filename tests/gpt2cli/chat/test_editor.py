"""Claims about the editor that a person has chosen; here each is a line of shell."""

import pathlib
import re
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from gpt2cli.chat.editor import edit
from gpt2cli.errors import UsageError
from gpt2cli.terminal.interrupt import unwind_on_signals

if sys.platform == "win32":
    pytest.skip("the editors are shell scripts", allow_module_level=True)


@pytest.fixture(autouse=True)
def no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)


@pytest.fixture
def choose(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> Iterator[Callable[[str], None]]:
    """Return the function that makes a line of shell the editor; $1 is the file."""

    def choose_line(line: str) -> None:
        script = tmp_path / "my editor"
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", f"'{script}'")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield choose_line
    signal.signal(signal.SIGINT, before)


Choose = Callable[[str], None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("true", "héllo\nyou"),
        ('printf " and me" >> "$1"', "héllo\nyou and me"),
        (': > "$1"', ""),
        ('printf "a\\r\\nb" > "$1"', "a\nb"),
        ('printf new > "$1.tmp"; mv "$1.tmp" "$1"', "new"),
    ],
    ids=["nothing", "more", "emptied", "crlf", "replaced"],
)
def test_the_text_is_as_the_person_left_it(choose: Choose, line: str, expected: str) -> None:
    choose(line)
    assert edit("héllo\nyou") == expected


def test_visual_comes_before_editor_and_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", "sed -i s/a/b/")
    assert edit("a") == "b"
    monkeypatch.setenv("VISUAL", "")
    with pytest.raises(UsageError, match="'false'"):
        edit("a")


def test_where_none_was_chosen_it_is_vi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "vi").write_text('#!/bin/sh\nprintf vi > "$1"\n')
    (tmp_path / "vi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert edit("a") == "vi"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("exit 3", "ended with code 3; nothing was sent"),
        ("kill -9 $$", "ended with code -9"),
        ('rm "$1"', "cannot edit with .*No such file"),
        ('printf "\\377" > "$1"', "cannot edit with .*can't decode"),
    ],
)
def test_an_editor_that_fails_is_an_error(choose: Choose, line: str, reason: str) -> None:
    choose(line)
    with pytest.raises(UsageError, match=reason):
        edit("a")


@pytest.mark.parametrize("command", ["/no/such/editor", "'unclosed", "   "])
def test_an_editor_that_cannot_be_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("EDITOR", command)
    with pytest.raises(UsageError, match=f"cannot edit with {re.escape(repr(command))}.*EDITOR"):
        edit("a")


def test_ctrl_c_is_the_editors(choose: Choose) -> None:
    """It reaches the whole foreground: vi's users press it all the time, and lose nothing."""
    choose('kill -INT $PPID; sleep 0.4; printf saved > "$1"')
    assert edit("a") == "saved"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_editor_is_shown_on_the_terminal(
    choose: Choose, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where replies go to a file, it must not write there too."""
    choose("echo screen")
    edit("a")
    assert tuple(capfd.readouterr()) == ("", "screen\n")


@pytest.mark.usefixtures("default_handlers")
def test_who_is_told_to_end_lets_the_editor_give_the_terminal_back(
    choose: Choose, tmp_path: pathlib.Path
) -> None:
    """It is told to end, waited for, and never killed."""
    unwind_on_signals()
    done = tmp_path / "done"
    choose(f"trap 'touch {done}; exit' TERM; kill -TERM $PPID; while :; do sleep 0.01; done")
    with pytest.raises(SystemExit) as caught:
        edit("a")
    assert caught.value.code == 143
    assert done.exists()
