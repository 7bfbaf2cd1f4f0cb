"""Claims about what is said on stderr where no person watches; the rest is in tests/e2e."""

import pytest

from gpt2cli.terminal.notes import Notes, end_line, write_error, write_line


def test_a_note_is_one_line_with_the_programs_name(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr; stdout has the result alone."""
    with Notes() as notes:
        notes.note("a")

    assert tuple(capsys.readouterr()) == ("", "gpt2: a\n")


def test_quiet_silences_notes_but_not_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """A report was asked for."""
    with Notes(quiet=True) as notes:
        notes.note("a")
        notes.report("b")

    assert capsys.readouterr().err == "b\n"


def test_stages_are_for_a_person_who_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """A log gets none, and no escape sequences."""
    with Notes() as notes:
        notes.stage("loading")
        notes.pause()

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
    """Lines are joined, and controls visible."""
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


def test_a_line_is_ended_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A log has no cursor that somebody left."""
    end_line()

    assert capsys.readouterr().err == ""
