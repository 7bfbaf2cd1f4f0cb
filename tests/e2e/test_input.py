"""Where the prompt comes from, in the real program: arguments, pipes and files."""

import os
import pathlib
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, finish, open_when_read, posix

_GENERATE: Final = ("generate", "--model", "starter", "-q")


def test_nothing_is_a_prompt_that_starts_from_bos(program: Program) -> None:
    """By argument or pipe: the completion is that of <|endoftext|>, which itself is not shown."""
    greedy = (*_GENERATE, "--greedy", "-n", "8")
    bos = program.run(*greedy, "--allow-special", "--no-echo", "<|endoftext|>")
    assert len(bos.out) > 8
    assert program.run(*greedy, "") == program.run(*greedy, stdin=b"") == bos


@posix
def test_a_file_may_be_a_fifo(program: Program, tmp_path: pathlib.Path) -> None:
    """As in --file <(command)."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with program.start(*_GENERATE, "-n", "0", "--file", str(fifo)) as process:
        with open_when_read(fifo, process.pid) as file:
            file.write(b"a\n")
        assert finish(process) == Finished(0, b"a\n", "")


@posix
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([b"caf\xe9"], "the prompt argument is not valid UTF-8 text"),
        ([b"--stop", b"\xff", "x"], "--stop: it is not valid UTF-8 text"),
    ],
    ids=["prompt", "stop"],
)
def test_an_argument_that_is_not_utf8_is_a_usage_error_of_one_line(
    program: Program, arguments: list[str | bytes], told: str
) -> None:
    """It names the argument."""
    assert program.run(*_GENERATE, *arguments) == Finished(2, b"", f"gpt2: error: {told}\n")


def test_a_pipe_that_is_not_utf8_is_an_error_of_one_line(program: Program) -> None:
    """It names the place, and what converts it in any locale."""
    told = "stdin is not valid UTF-8 (byte 3); convert it, for example with `iconv -f latin1 -t UTF"
    done = program.run(*_GENERATE, stdin=b"caf\xe9\n")
    assert done == Finished(1, b"", f"gpt2: error: {told}-8`\n")
