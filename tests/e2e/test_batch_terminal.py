"""What a person sees of `gpt2 batch`: the program in a pseudo-terminal."""

import pathlib
import re
from typing import Final

import pytest

from tests.e2e.program import Program
from tests.e2e.screen import Terminal, show

_CONVERT: Final = "convert it, for example with `iconv -f latin1 -t UTF-8`"
_BATCH: Final = ("batch", "--model", "starter", "--greedy", "-n", "3")
_CONTROLS: Final = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|\r")


@pytest.fixture
def lines(tmp_path: pathlib.Path) -> str:
    """Return a file with a prompt, one that is no text, and another."""
    file = tmp_path / "lines"
    file.write_bytes(b"a\n\xff\nb\n")
    return str(file)


def test_a_dash_reads_what_is_typed(program: Program) -> None:
    """The record of the first line comes before the second is typed."""
    terminal = Terminal(program, *_BATCH, "-q", "-", "--format", "text")
    for prompt in ("The", "Once"):
        completion = program.run(*_BATCH, "-q", "--format", "text", stdin=prompt.encode()).out
        terminal.process.sendline(prompt)
        terminal.wait_for(completion.decode().strip())
    terminal.process.sendeof()
    assert terminal.finish() == 0


def test_records_on_the_terminal_are_progress_enough(program: Program, lines: str) -> None:
    """No bar stands in their way; a note and the summary have lines of their own."""
    done = show(program, *_BATCH, lines, "--format", "text", NO_COLOR="1")
    text = program.run(*_BATCH, lines, "-q", "--format", "text").out.decode()
    first, _, last = text.splitlines()
    shown = done.err[done.err.rindex("\x1b") :] if "\x1b" in done.err else done.err
    rows = _CONTROLS.sub("", shown).splitlines()
    assert rows[0] == first
    assert sorted(rows[1:4]) == sorted(
        ["", f"gpt2: record 1: the record is not valid UTF-8 (byte 0); {_CONVERT}", last]
    )
    assert rows[4].startswith("gpt2: 3 records, 1 error among them, ")
    assert done.code == 1


def test_a_bar_shows_the_progress_into_a_file_and_vanishes(
    program: Program, tmp_path: pathlib.Path, lines: str
) -> None:
    """With the count and the rate; notes stay above it, the summary is the last line."""
    done = show(program, *_BATCH, lines, "--format", "text", "-o", str(tmp_path / "out"))
    assert re.search(r"3 records, \d+ tokens/s", done.err)
    assert "━" in done.err
    *before, summary = done.err.splitlines()
    assert summary.endswith("tokens/s)")
    assert any("gpt2: record 1: the record is not valid" in row for row in before)
    assert "\x1b[?25h" in done.err  # the cursor is back


def test_quiet_shows_no_bar(program: Program, tmp_path: pathlib.Path, lines: str) -> None:
    """And nothing else."""
    assert show(program, *_BATCH, lines, "-q", "-o", str(tmp_path / "out")).err == ""
