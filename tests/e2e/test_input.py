"""Where the prompt comes from, in the real program: arguments, pipes, files, closed and open."""

import json
import os
import pathlib
import sys
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, finish, open_when_read

_ECHO: Final = ("generate", "--model", "starter", "-n", "0", "-q")

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell, FIFOs and bytes as arguments")


@pytest.mark.parametrize("empty", [[""], []], ids=["argument", "pipe"])
def test_nothing_is_a_prompt_that_starts_from_bos(program: Program, empty: list[str]) -> None:
    """The completion is that of <|endoftext|>, which itself is not shown."""
    bos = program.run(
        *_ECHO, "--greedy", "-n", "8", "--allow-special", "--no-echo", "<|endoftext|>"
    )
    done = program.run(*_ECHO, "--greedy", "-n", "8", *empty, stdin=b"")
    assert done == bos
    assert len(done.out) > 8


@posix
def test_a_file_may_be_a_fifo(program: Program, tmp_path: pathlib.Path) -> None:
    """As in --file <(command)."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with program.start(*_ECHO, "--file", str(fifo)) as process:
        with open_when_read(fifo) as file:
            file.write(b"a\n")
        assert finish(process) == Finished(0, b"a\n", "")


@posix
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([b"caf\xe9"], "the prompt argument is not valid UTF-8 text"),
        ([b"--stop", b"\xff", "x"], "--stop: it is not valid UTF-8 text"),
        ([b"--separator", b"\xff", "x"], "--separator: it is not valid UTF-8 text"),
    ],
    ids=["prompt", "stop", "separator"],
)
def test_an_argument_that_is_not_utf8_is_a_usage_error_of_one_line(
    program: Program, arguments: list[str | bytes], told: str
) -> None:
    """It names the argument."""
    done = program.run("generate", "-m", "starter", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert done.err == f"gpt2: error: {told}\n"


def test_a_pipe_that_is_not_utf8_is_an_error_of_one_line(program: Program) -> None:
    """It names the place, and what converts it in any locale."""
    done = program.run("generate", "-m", "starter", stdin=b"caf\xe9\n")
    assert (done.code, done.out) == (1, b"")
    assert done.err == (
        "gpt2: error: stdin is not valid UTF-8 (byte 3); "
        "convert it, for example with `iconv -f latin1 -t UTF-8`\n"
    )


def test_a_model_folder_may_have_an_odd_name(program: Program, tmp_path: pathlib.Path) -> None:
    """Spaces, markup and letters beyond ASCII; records tell it as it is."""
    name = str(tmp_path / "[bold] é")
    made = program.run("export", "starter", name)
    done = program.run("generate", "-m", name, "-n", "0", "--json", "x")
    assert made == Finished(0, b"", f"gpt2: wrote {name}\n")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["model"] == name
