"""What every command does in a shell: light help, readers that go away, streams that are closed."""

import json
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, finish, press_ctrl_c, read_until, send
from tests.e2e.screen import Terminal, show

_HEAVY: Final = (
    *("numpy", "onnxruntime", "onnx", "tokenizers", "huggingface_hub", "safetensors"),
    *("export.convert", "rich.live", "statistics", "urllib.request", "starlette", "uvicorn"),
)
_ENDLESS: Final = "--overflow slide --ignore-eos -n 1000000"
_PROMPT_EXAMPLE: Final = 'expected a prompt, for example: gpt2 generate "Once upon a time"'
_BATCH_EXAMPLE: Final = "expected prompts, for example: cat prompts.txt | gpt2 batch"


@pytest.fixture(autouse=True)
def long_text(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder with a file that takes the starter some seconds to score, and lines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").write_text("Once upon a time there was a garden. " * 3000)
    (tmp_path / "lines").write_text("a\n")


def test_what_needs_no_model_imports_nothing_heavy(program: Program) -> None:
    """Help and version answer at once: no tensors, no tokenizers, no hub, no export."""
    names = (
        "generate",
        "chat",
        "batch",
        "serve",
        "replay",
        "score",
        "tokens",
        "export",
        "models",
        "bench",
        "doctor",
    )
    lines = ["--help", "-h", "--version", "", "config -h", "config path"]
    lines += [f"{name} -h" for name in names]
    assert _find_imports(program, lines, _HEAVY) == {line: [] for line in lines}
    tokens = "tokens -m starter x --json"  # the tokenizer alone is enough
    assert _find_imports(program, [tokens], ("onnxruntime", "numpy", "onnx")) == {tokens: []}


def _find_imports(
    program: Program, lines: Sequence[str], modules: Sequence[str]
) -> dict[str, list[str]]:
    """Run command lines, one after the other in one process; return what each has imported."""
    script = (
        "import contextlib, json, os, sys\n"
        "from gpt2cli.__main__ import main\n"
        "found = {}\n"
        f"for line in {lines!r}:\n"
        "    sys.argv = ['gpt2', *line.split()]\n"
        "    with contextlib.suppress(SystemExit):\n        main()\n"
        f"    found[line] = [m for m in {modules!r} if m in sys.modules]\n"
        "os.write(1, b'\\0' + json.dumps(found).encode())\n"
    )
    done = program.run_python("-c", script)
    found: dict[str, list[str]] = json.loads(done.out.partition(b"\0")[2])
    return found


# Readers that go away


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ('"$GPT2" generate -m starter -N 500 -n 9 x', "-1"),
        ('"$GPT2" score -m starter -f long', "-1"),
        ('yes x | "$GPT2" batch -m starter -n 6', "-1"),
        (f'yes x | "$GPT2" chat -m starter {_ENDLESS}', "-c 9"),
    ],
)
def test_head_ends_a_command_quietly(program: Program, command: str, head: str) -> None:
    """It gets its line or bytes; the program says nothing and tells success."""
    done = program.run_shell(f"{{ {command}; echo $? >&2; }} | head {head}")
    assert (done.code, done.err) == (0, "0\n")
    assert (done.out.count(b"\n") == 1) if head == "-1" else (len(done.out) == 9)


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        (f"generate -m starter {_ENDLESS} --json x", b""),
        ("score -m starter -f long --json", b""),
        ("replay endless", b""),
        ("bench -m starter --batch-size 1 --prompt-length 4 --rounds 100000", b""),
        (f"batch -m starter {_ENDLESS}", b""),
        (f"batch -m starter {_ENDLESS}", b"a\n"),
    ],
)
def test_a_closed_pipe_ends_a_command_before_it_has_anything_to_write(
    program: Program, command: str, stdin: bytes
) -> None:
    """Also while its input keeps silent."""
    if command == "replay endless":
        made = program.run(*f"generate -m starter {_ENDLESS} -n 0 --json x".split())
        endless = made.out.replace(b'"max_new_tokens": 0', b'"max_new_tokens": 1000000')
        pathlib.Path("endless").write_bytes(endless)
    with program.start(*command.split(), stdin=b"") as process:
        send(process, stdin)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        assert finish(process) == Finished(0, b"", "")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_into_a_closed_pipe_are_quiet(program: Program, argument: str) -> None:
    """As for every result: nothing is left to do."""
    reader, writer = os.pipe()
    os.close(reader)
    with program.start(argument, stdout=writer) as process:
        os.close(writer)
        assert finish(process) == Finished(0, b"", "")


# Streams that are closed, or silent


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("generate -m starter", 2, _PROMPT_EXAMPLE),
        ("generate -m starter -", 1, "cannot read stdin: it is closed"),
        ("batch -m starter", 2, _BATCH_EXAMPLE),
        ("chat -m starter", 2, "expected a terminal or messages on stdin, which is closed"),
    ],
)
def test_a_closed_stdin_is_an_error_of_one_line(
    program: Program, arguments: str, code: int, told: str
) -> None:
    """`<&-` is nothing at all, and nothing that could be read."""
    done = program.run_shell(f'"$GPT2" {arguments} <&-')
    assert done == Finished(code, b"", f"gpt2: error: {told}\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("generate", _PROMPT_EXAMPLE),
        ("batch -m starter", _BATCH_EXAMPLE),
    ],
)
def test_no_text_on_a_terminal_is_a_usage_error_with_an_example(
    program: Program, arguments: str, told: str
) -> None:
    """A person who forgot it is not left waiting."""
    assert show(program, *arguments.split()) == Finished(2, b"", f"gpt2: error: {told}\n")


@pytest.mark.parametrize(
    "arguments",
    ["generate -n 0 hi", "batch -n 1 lines"],  # the other commands read texts as generate does
)
def test_a_silent_pipe_beside_a_text_is_not_waited_for(program: Program, arguments: str) -> None:
    """As under a supervisor, or `sleep 100 | gpt2 generate hi`."""
    reader, writer = os.pipe()
    try:
        done = program.run(*arguments.split(), "-m", "starter", "-q", stdin=reader)
        assert (done.code, done.err) == (0, "")
    finally:
        os.close(reader)
        os.close(writer)


# Where results go


@pytest.mark.parametrize(
    "command",
    ["generate -m starter --greedy -n 5 -q Once", "batch -m starter --seed 3 -n 5 -q lines"],
)
def test_what_is_no_file_is_written_not_replaced(program: Program, command: str) -> None:
    """/dev/stdout, by a pipe and appended to a file, which keeps what it had; and a FIFO."""
    log, fifo = pathlib.Path("log"), pathlib.Path("fifo")
    log.write_text("before\n")
    run = f'"$GPT2" {command} -o /dev/stdout'
    done = program.run_shell(f"{run} >> log && {run} | cat")
    assert (done.code, done.err) == (0, "")
    assert done.out
    assert log.read_bytes() == b"before\n" + done.out
    os.mkfifo(fifo)
    with program.start(*command.split(), "-o", "fifo") as process:
        assert fifo.read_bytes() == done.out
        assert finish(process) == Finished(0, b"", "")
    assert fifo.is_fifo()
    assert {path.name for path in pathlib.Path().iterdir()} == {"fifo", "lines", "log", "long"}


@pytest.mark.parametrize(
    "arguments",
    [
        "--help > /dev/full",
        "generate -m starter -n 1 x > /dev/full",
        "batch -m starter -n 1 lines > /dev/full",
        "batch -m starter -n 1 lines -o /dev/full",
    ],
)
def test_a_full_device_is_a_failure_of_one_line(program: Program, arguments: str) -> None:
    """Whatever writes there; Python's own flush at exit adds nothing. The device stays one."""
    done = program.run_shell(f'"$GPT2" {arguments}')
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("gpt2: error: ")
    assert done.err.endswith("No space left on device\n")
    assert pathlib.Path("/dev/full").is_char_device()
    assert not pathlib.Path("/dev/full.resume.json").exists()


# Colours and Ctrl-C


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("generate -m starter -n 2 --greedy x", {"NO_COLOR": "1"}),
        ("score -m starter x", {"TERM": "dumb"}),
    ],
)
def test_colour_follows_the_reader_and_the_users_wish(
    program: Program, command: str, unwanted: dict[str, str]
) -> None:
    """In a pipe there is none, forced or not; nor where a terminal's user wants none."""
    arguments = command.split()
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}
    plain = program.run(*arguments, environment=forced)
    done = show(program, *arguments, **unwanted)
    assert (plain.code, plain.err) == (0, "")
    assert b"\x1b" not in plain.out
    assert done.err.endswith(plain.out.decode())
    assert not re.search(r"\x1b\[[\d;]*m", done.err)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"batch -m starter {_ENDLESS} -o out lines", "0 records"),
        # Any round but the first: a terminal is shown some of them, not each.
        (
            "bench -m starter --batch-size 1 --prompt-length 4 --rounds 100000",
            r"round (?!1 of)\d+ of 100000",
        ),
    ],
)
def test_ctrl_c_takes_the_progress_away(program: Program, command: str, shown: str) -> None:
    """The exit code is 130; the cursor is back."""
    terminal = Terminal(program, *command.split())
    terminal.wait_until(lambda: re.search(shown, terminal.raw) is not None)
    terminal.process.sendintr()
    assert terminal.finish() == 130


def test_ctrl_c_ends_a_score_with_whole_lines_and_no_perplexity(program: Program) -> None:
    """Quietly; into a file too, where a note says so."""
    with program.start("score", "-m", "starter", "-f", "long") as process:
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert _are_scores(begun + done.out)

    terminal = Terminal(program, "score", "-m", "starter", "-f", "long", "-o", "out")
    terminal.wait_until(lambda: "tokens/s" in terminal.raw)
    terminal.process.sendintr()
    assert terminal.finish() == 130
    assert re.search(r"\x1b\[2Kgpt2: interrupted; what was made so far is in out", terminal.raw)
    assert _are_scores(pathlib.Path("out").read_bytes())
    assert sorted(path.name for path in pathlib.Path().iterdir()) == ["lines", "long", "out"]


def _are_scores(text: bytes) -> bool:
    lines = text.decode().split("\n")
    return lines.pop() == "" and all(re.fullmatch(r'-[\d.]+\t".*"', line) for line in lines)
