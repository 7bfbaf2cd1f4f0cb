"""`gpt2 bench` as a shell runs it: pipes, Ctrl-C, and progress on a terminal alone."""

import json
import sys
from typing import Final

import pytest

from tests.e2e.program import Program

if sys.platform == "win32":
    pytest.skip("signals and a pseudo-terminal", allow_module_level=True)

from tests.e2e.test_terminal import Terminal, show

_BENCH: Final = ("bench", "--model", "starter", "--batch-size", "1", "--prompt-length", "4")
_HELP: Final = (
    "import sys\n"
    "from gpt2cli.__main__ import main\n"
    "sys.argv = ['gpt2', 'bench', '-h']\n"
    "heavy = ('onnxruntime', 'numpy', 'onnx', 'tokenizers', 'rich.live', 'statistics')\n"
    "try:\n    main()\n"
    "finally:\n    print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
)


def test_a_pipe_gets_the_result_alone(program: Program) -> None:
    """One record, and nothing on stderr."""
    done = program.run(*_BENCH, "--rounds", "1", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["model"] == "starter"


def test_a_closed_pipe_ends_the_program_before_it_has_anything_to_write(program: Program) -> None:
    """Quietly, and long before the rounds that were asked for are over."""
    with program.start(*_BENCH, "--rounds", "100000") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ctrl_c_ends_the_program_with_nothing_written(program: Program) -> None:
    """What is not measured to its end is no result."""
    terminal = Terminal(program, (*_BENCH, "--rounds", "100000"), {})
    # Any round but the first: a terminal is shown some of them, not each.
    terminal.process.expect(r"round (?!1 of)\d+ of 100000")
    terminal.process.sendintr()
    done = terminal.finish()
    assert (done.code, done.out) == (130, b"")
    assert "\x1b[?25h" in done.err  # the cursor is back


def test_a_quiet_terminal_shows_the_table_alone(program: Program) -> None:
    """No progress that comes and goes."""
    done = show(program, *_BENCH, "--rounds", "1", "--quiet")
    assert done.code == 0
    assert done.err.startswith("model starter, ")
    assert "round" not in done.err


def test_help_imports_nothing_heavy(program: Program) -> None:
    """As for every command."""
    assert program.run_python("-c", _HELP).err.splitlines() == ["[]"]
