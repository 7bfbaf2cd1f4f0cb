"""`gpt2 batch` in pipes: records as they come, whoever reads or writes them."""

import json
import os
import pathlib
import stat
import sys
from typing import Any, Final

import pytest

from tests.e2e.program import (
    Finished,
    Program,
    finish,
    press_ctrl_c,
    read_until,
)

if sys.platform == "win32":
    pytest.skip("a shell, FIFOs and /dev", allow_module_level=True)

_BATCH: Final = ("batch", "--model", "starter", "--seed", "3", "-n", "6")
_SHELL: Final = '"$GPT2" batch -m starter --seed 3 -n 6'
_ENDLESS: Final = ("--ignore-eos", "--overflow", "slide", "-n", "1000000")


def prompts_of(out: bytes) -> list[str]:
    """Return the prompt of each record."""
    return [json.loads(line)["prompt"] for line in out.splitlines()]


@pytest.fixture(scope="module")
def two(program: Program) -> bytes:
    """Return the records of the prompts `a` and `b`."""
    done = program.run(*_BATCH, "-q", stdin=b"a\nb\n")
    assert (done.code, done.err) == (0, "")
    return done.out


def test_a_record_is_out_before_the_next_prompt_is_sent(program: Program, two: bytes) -> None:
    """Its reader answers it with the next one."""
    with program.start(*_BATCH, "-q", stdin=b"") as process:
        assert process.stdin is not None
        process.stdin.write(b"a\n")
        process.stdin.flush()
        first = read_until(process.stdout, b"\n")
        assert prompts_of(first) == ["a"]
        process.stdin.write(b"b\n")
        process.stdin.flush()
        second = read_until(process.stdout, b"\n")
        assert finish(process) == Finished(0, b"", "")
    assert first + second == two


def test_stdin_is_read_by_its_name_too(program: Program, two: bytes) -> None:
    """`-` is stdin; and stdout."""
    assert program.run(*_BATCH, "-q", "-", "-o", "-", stdin=b"a\nb").out == two


def test_a_file_beside_a_silent_pipe_does_not_wait(
    program: Program, tmp_path: pathlib.Path, two: bytes
) -> None:
    """Stdin is not looked at."""
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    with program.start(*_BATCH, "-q", str(file), stdin=b"") as process:
        assert process.stdout is not None
        assert process.stdout.read() == two
        assert process.wait() == 0


def test_an_empty_input_gives_nothing(program: Program) -> None:
    """`< /dev/null` is no failure."""
    done = program.run(*_BATCH)
    assert (done.code, done.out) == (0, b"")
    assert done.err.startswith("gpt2: 0 records, ")


def test_a_closed_stdin_is_wrong_usage(program: Program) -> None:
    """There is nothing to read."""
    done = program.run_shell(f"{_SHELL} <&-")
    assert (done.code, done.out) == (2, b"")
    assert done.err == "gpt2: error: expected prompts, for example: cat prompts.txt | gpt2 batch\n"


def test_completions_line_up_with_their_prompts(program: Program, tmp_path: pathlib.Path) -> None:
    """By paste, also where a record is an error."""
    line = f"printf 'a\\nb\\351\\n\\nc\\n' > $DIR/p; {_SHELL} --format text $DIR/p | paste $DIR/p -"
    done = program.run_shell(line, environment={"DIR": str(tmp_path)})
    names = [row.split(b"\t")[0] for row in done.out.splitlines()]
    completions = [row.split(b"\t")[1] for row in done.out.splitlines()]
    assert names == [b"a", b"b\xe9", b"", b"c"]
    assert [bool(text) for text in completions] == [True, False, True, True]
    assert done.err.startswith("gpt2: record 1: the record is not valid UTF-8 (byte 1); convert it")


# Readers that go away


def test_head_ends_it_quietly(program: Program) -> None:
    """`yes x | gpt2 batch | head -1` gets its record; nothing is said, and it is success."""
    line = f"yes x | {{ {_SHELL}; echo $? >&2; }} | head -1"
    done = program.run_shell(line)
    assert prompts_of(done.out) == ["x"]
    assert done.err == "0\n"


@pytest.mark.parametrize("stdin", [b"", b"a\n"], ids=["silent", "endless"])
def test_a_closed_pipe_ends_it_before_it_has_anything_to_write(
    program: Program, stdin: bytes
) -> None:
    """While its input keeps silent, and in the midst of a record that would not end."""
    with program.start(*_BATCH, *_ENDLESS, stdin=b"") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(stdin)
        process.stdin.flush()
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


# Ctrl-C


def test_ctrl_c_leaves_whole_records_and_none_that_is_interrupted(program: Program) -> None:
    """The first one is short, the second would never end."""
    records: list[dict[str, Any]] = [
        {"prompt": "a"},
        {"prompt": "b", "ignore_eos": True, "overflow": "slide", "max_new_tokens": 10**6},
        {"prompt": "c"},
    ]
    lines = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    with program.start(*_BATCH, "--jsonl", stdin=b"") as process:
        assert process.stdin is not None
        process.stdin.write(lines)
        process.stdin.flush()
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert prompts_of(begun + done.out) == ["a"]


def test_ctrl_c_ends_the_wait_for_a_silent_input(program: Program) -> None:
    """Here between two prompts."""
    with program.start(*_BATCH, stdin=b"") as process:
        assert process.stdin is not None
        process.stdin.write(b"a\n")
        process.stdin.flush()
        read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        assert finish(process) == Finished(130, b"", "")


def test_ctrl_c_is_heard_among_errors_without_end(program: Program, tmp_path: pathlib.Path) -> None:
    """A million lines that are no JSON, of which none needs the model; blank ones between them."""
    (tmp_path / "in").write_bytes(b"x\n\n" * 1_000_000)
    with program.start(*_BATCH, "--jsonl", str(tmp_path / "in")) as process:
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert {json.loads(line)["completion"] for line in (begun + done.out).splitlines()} == {""}


# Where the records go


def test_dev_stdout_is_stdout_and_is_appended_to(
    program: Program, tmp_path: pathlib.Path, two: bytes
) -> None:
    """Through a pipe; and into a file that the shell appends to, which keeps what it had."""
    log = tmp_path / "log"
    log.write_text("before\n")
    run = f"printf 'a\\nb\\n' | {_SHELL} -q -o /dev/stdout"
    done = program.run_shell(f'{run} >> "$LOG" && {run} | cat', environment={"LOG": str(log)})
    assert (done.code, done.out, done.err) == (0, two, "")
    assert log.read_bytes() == b"before\n" + two
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_fifo_is_written_not_replaced(
    program: Program, tmp_path: pathlib.Path, two: bytes
) -> None:
    """And it has no journal."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with program.start(*_BATCH, "-q", "-o", str(fifo), stdin=b"") as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\n")
        process.stdin.close()
        process.stdin = None
        assert fifo.read_bytes() == two
        assert finish(process) == Finished(0, b"", "")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize("output", ["> /dev/full", "-o /dev/full"])
def test_a_full_device_is_a_failure_of_one_line(program: Program, output: str) -> None:
    """The device stays one, without a journal."""
    done = program.run_shell(f"printf 'a\\nb\\n' | {_SHELL} {output}")
    told = "gpt2: error: cannot write the result: No space left on device\n"
    assert done == Finished(1, b"", told)
    assert stat.S_ISCHR(pathlib.Path("/dev/full").stat().st_mode)
    assert not pathlib.Path("/dev/full.resume.json").exists()
