"""What a person sees: the program in a pseudo-terminal."""

import json
import os
import pathlib
import re
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, open_when_read
from tests.e2e.screen import Terminal, show

_STARTER: Final = ("generate", "--model", "starter", "--greedy", "-n", "2")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"
_CLEAN_END: Final = re.compile(r"\x1b\[\?25h[^\n]*\x1b\[2K")  # the cursor is back, the line gone


@pytest.fixture(scope="module")
def completion(program: Program) -> str:
    """Return what the starter adds to the prompt `x` in two greedy tokens, and the newline."""
    return program.run(*_STARTER, "--no-echo", "-q", "x").out.decode()


def test_the_prompt_alone_stands_in_bold(program: Program, completion: str) -> None:
    """Each sample begins with it; the separator and the completion are plain."""
    once = f"{_BOLD}x{_PLAIN}{completion}"
    done = show(program, *_STARTER, "-q", "-N", "2", "x")
    assert done == Finished(0, b"", f"{once}---\n{once}")


def test_what_would_control_the_terminal_is_visible(program: Program) -> None:
    """ESC, a C1 control, a carriage return and a bidi override; tab and newline do their work.

    Nothing takes the user's text for markup: not the result, not an error that quotes it.
    """
    done = show(program, *_STARTER, "-q", "-n", "0", "[/red]a\x1b[31m\x9b1m\rb\u202ec\t\nd")
    assert done.err == f"{_BOLD}[/red]a␛[31m<U+009B>1m␍b<U+202E>c\t\nd{_PLAIN}\n"
    failed = show(program, "generate", "--model", "[/red] [bold]x", "x")
    assert "model '[/red] [bold]x'" in failed.err
    assert failed.code == 1


def test_the_line_that_tells_of_loading_vanishes(program: Program, completion: str) -> None:
    """It is erased before the result begins, and the cursor is shown again."""
    done = show(program, *_STARTER, "x")
    before, _, shown = done.err.partition(_BOLD)
    assert "loading starter" in before
    assert _CLEAN_END.search(before)
    assert shown == f"x{_PLAIN}{completion}"


def test_a_dash_reads_what_is_typed(program: Program, completion: str) -> None:
    """Until Ctrl-D; the newline of the last line is dropped."""
    terminal = Terminal(program, *_STARTER, "-q", "-")
    terminal.process.sendline("x")
    terminal.process.sendeof()
    assert terminal.finish() == 0
    assert _shown(terminal).endswith(f"{_BOLD}x{_PLAIN}{completion}")


def test_a_result_in_a_file_leaves_the_terminal_alone(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """The prompt in the file is not bold."""
    file = tmp_path / "out.txt"
    done = show(program, *_STARTER, "-q", "-n", "0", "-o", str(file), "x\x1b")
    assert (done.err, file.read_bytes()) == ("", b"x\x1b\n")


def test_ctrl_c_finishes_the_line(program: Program) -> None:
    """The shell's next prompt begins a new one; no line of progress is left."""
    endless = ("--ignore-eos", "--overflow", "slide", "-n", "100000")
    terminal = Terminal(program, "generate", "-m", "starter", *endless, "x")
    terminal.wait_until(lambda: bool(re.search(r"\w+ \w+", terminal.raw.partition(_PLAIN)[2])))
    terminal.process.sendintr()
    assert terminal.finish() == 130
    assert re.search(r"\S ?\n$", _shown(terminal))
    assert "\n\n" not in _shown(terminal)[-3:]


def test_ctrl_c_before_anything_is_shown_gives_the_shell_a_line_of_its_own(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """What the terminal echoes, ^C, is ended; here while the prompt's file keeps silent."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    terminal = Terminal(program, *_STARTER, "--file", str(fifo))
    with open_when_read(fifo, terminal.process.pid):
        terminal.process.sendintr()
        assert (terminal.finish(), _shown(terminal)) == (130, "^C\n")


def test_ctrl_c_at_a_question_is_130(program: Program) -> None:
    """It is no answer: nothing more is said, and the prompt of the shell gets its own line."""
    terminal = Terminal(program, "models", "rm", "starter")
    terminal.wait_for("? [y/N]")
    terminal.process.sendintr()
    assert terminal.finish() == 130
    assert _shown(terminal).endswith("? [y/N] ^C\n")


def test_a_benchmark_gives_a_pipe_a_record_and_a_quiet_terminal_the_table(
    program: Program,
) -> None:
    """Nothing on stderr, and no progress that comes and goes."""
    bench = ("bench", "-m", "starter", "--batch-size", "1", "--prompt-length", "4", "--rounds", "1")
    piped = program.run(*bench, "--json")
    assert (piped.code, piped.err) == (0, "")
    assert json.loads(piped.out)["model"] == "starter"
    shown = show(program, *bench, "--quiet")
    assert shown.code == 0
    assert shown.err.startswith("model starter, ")
    assert "round" not in shown.err


def _shown(terminal: Terminal) -> str:
    """Return all that was shown, with plain newlines."""
    return terminal.raw.replace("\r\n", "\n")
