"""Claims about what is said on stderr where no person watches; the rest is in tests/e2e."""

import os
import threading
import time

import pytest

from export.errors import redirected
from gpt2cli.terminal.notes import Notes, end_line, write_error, write_line


@pytest.mark.parametrize(("quiet", "told"), [(False, "gpt2: a\nb\n"), (True, "b\n")])
def test_quiet_silences_notes_but_not_reports(
    capsys: pytest.CaptureFixture[str], quiet: bool, told: str
) -> None:
    """A report was asked for; stdout has the result alone."""
    with Notes(quiet=quiet) as notes:
        notes.note("a")
        notes.report("b")
    assert tuple(capsys.readouterr()) == ("", told)


def test_stages_and_a_lines_end_are_for_a_person_who_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A log gets none, and no escape sequences; it has no cursor that somebody left."""
    with Notes() as notes:
        notes.stage("loading")
        notes.pause()
        end_line()
    assert not notes.watched
    assert tuple(capsys.readouterr()) == ("", "")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a", "gpt2: error: a\n"),
        ("a\n  b\r\nc\n", "gpt2: error: a b c\n"),
        ("a\x1b[31m\u202eb", "gpt2: error: a␛[31m<U+202E>b\n"),
        ("[/red] [bold]x", "gpt2: error: [/red] [bold]x\n"),
        ("é …", "gpt2: error: é …\n"),
    ],
)
def test_an_error_is_one_line_whatever_it_quotes(
    capfd: pytest.CaptureFixture[str], message: str, line: str
) -> None:
    write_error(message)
    assert capfd.readouterr().err == line


def test_stderr_that_cannot_be_written_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nobody to tell."""
    monkeypatch.setattr("sys.stderr", None)
    write_line("a")
    write_error("a")
    end_line()
    with Notes() as notes:
        notes.note("a")
        notes.stage("a")
    assert capsys.readouterr().out == ""


def test_what_is_written_while_another_thread_redirects_stderr_arrives(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tokenizer is loaded beside the weights, and its library's reports are dropped meanwhile."""
    begun = threading.Event()

    def redirect() -> None:
        with open(os.devnull, "wb") as nowhere, redirected([2], nowhere.fileno()):  # noqa: PTH123
            begun.set()
            time.sleep(0.05)  # for who does not wait to write meanwhile

    thread = threading.Thread(target=redirect)
    thread.start()
    begun.wait()
    with open(2, "w", closefd=False) as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        write_line("a")
    thread.join()
    assert capfd.readouterr().err == "a\n"
