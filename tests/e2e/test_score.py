"""`gpt2 score` and `gpt2 tokens` as a shell runs them: pipes, Ctrl-C, and a terminal's colours."""

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, finish, press_ctrl_c, read_until

if sys.platform == "win32":
    pytest.skip("a shell, signals and a pseudo-terminal", allow_module_level=True)

from tests.e2e.test_terminal import Terminal, show

_SCORE: Final = ("score", "--model", "starter")
_TOKENS: Final = ("tokens", "--model", "starter")
_STYLE: Final = re.compile(r"\x1b\[[\d;]*m")
_HOSTILE: Final = '[/red] [bold]x \x1b[31m\u2028a\u202eb\r\nc\t"\\ 👩‍🚀 日本\x00\r\n\n'
_NO_RUNTIME: Final = (
    "import sys\n"
    "from gpt2cli.__main__ import main\n"
    "sys.argv = ['gpt2', 'tokens', '-m', 'starter', 'x', '--json']\n"
    "heavy = ('onnxruntime', 'numpy', 'onnx')\n"
    "try:\n    main()\n"
    "finally:\n    print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
)


@pytest.fixture
def long_text(tmp_path: pathlib.Path) -> str:
    """Return a file that takes the starter some seconds to score."""
    file = tmp_path / "long.txt"
    file.write_text("Once upon a time there was a garden. " * 3000)
    return str(file)


def test_a_text_is_scored_the_same_as_an_argument_and_from_stdin(program: Program) -> None:
    """One line per token and one for the perplexity; stderr is empty."""
    given = program.run(*_SCORE, "Once upon a time")
    piped = program.run(*_SCORE, stdin=b"Once upon a time\n")
    assert given.code == 0
    assert given.err == ""
    assert given.out.count(b"\n") == 5
    assert given == piped


def test_an_open_silent_pipe_beside_a_text_is_not_waited_for(program: Program) -> None:
    """Nor beside a file."""
    reader, writer = os.pipe()
    try:
        assert program.run(*_SCORE, "Once", stdin=reader).code == 0
        assert program.run(*_TOKENS, "Once", stdin=reader).code == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_head_ends_the_program_quietly(program: Program, long_text: str) -> None:
    """It tells success as soon as nobody reads."""
    line = '{ "$GPT2" score -m starter -f "$TEXT"; echo $? >&2; } | head -1'
    done = program.run_shell(line, environment={"TEXT": long_text})
    assert (done.code, done.out.count(b"\n"), done.err) == (0, 1, "0\n")


def test_a_closed_pipe_ends_the_program_before_it_has_anything_to_write(
    program: Program, long_text: str
) -> None:
    """The record would come at the end."""
    with program.start(*_SCORE, "-f", long_text, "--json") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ctrl_c_ends_with_whole_lines_and_no_perplexity(program: Program, long_text: str) -> None:
    """Quietly, with 130."""
    with program.start(*_SCORE, "-f", long_text) as process:
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    lines = (begun + done.out).decode().split("\n")
    assert (done.code, done.err) == (130, "")
    assert lines.pop() == ""
    assert all(re.fullmatch(r'-[\d.]+\t".*"', line) for line in lines)


def test_ctrl_c_keeps_what_was_scored_in_a_file(
    program: Program, tmp_path: pathlib.Path, long_text: str
) -> None:
    """Whole lines; a note says so once the bar is gone."""
    file = tmp_path / "scores"
    terminal = Terminal(program, (*_SCORE, "-f", long_text, "-o", str(file)), {})
    terminal.process.expect(r"\d+ tokens/s")
    terminal.process.sendintr()
    done = terminal.finish()
    assert done.code == 130
    assert "\x1b[?25h" in done.err  # the cursor is back
    assert re.search(r"\x1b\[2Kgpt2: interrupted; what was made so far is in .*\n$", done.err)
    assert all(re.fullmatch(r'-[\d.]+\t".*"', li) for li in file.read_text().splitlines())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.txt", "scores"]


def test_a_terminal_shows_the_text_itself_in_colours(program: Program) -> None:
    """With whole characters, and the perplexity and the legend below."""
    text = "Once upon a time, there was a zebra 👩‍🚀 [/red]."
    done = show(program, *_SCORE, "-q", text)
    shown, below, legend, end = _STYLE.sub("", done.err).split("\n")
    record = json.loads(program.run(*_SCORE, text, "--json").out)
    assert shown == text
    assert below == f"perplexity {record['perplexity']:.6g} ({record['scored_tokens']} tokens)"
    assert legend.startswith("probability ")
    assert len(legend) <= 80
    assert end == ""
    assert done.err.startswith("Once upon")  # which is likely, and has no colour
    assert "\x1b[97;41m 👩‍🚀" in done.err.replace("\x1b[0m\x1b[97;41m", "")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colour_can_be_unwanted(program: Program, environment: dict[str, str]) -> None:
    """A terminal then shows what a pipe gets."""
    done = show(program, *_SCORE, "-q", "Once upon", **environment)
    assert done.err == program.run(*_SCORE, "Once upon").out.decode()


def test_colour_that_is_forced_does_not_reach_a_pipe(program: Program) -> None:
    """The variables that others read as a wish for colour change no byte."""
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
    plain = program.run(*_SCORE, "Once upon")
    assert program.run(*_SCORE, "Once upon", environment=forced) == plain


@pytest.mark.parametrize(
    ("command", "example"),
    [
        (("score",), 'expected a text, for example: gpt2 score "The cat sat on the mat"'),
        (("tokens",), 'expected a text, for example: gpt2 tokens "Hello world"'),
        (("tokens", "-d"), "expected a text, for example: gpt2 tokens --decode 15496 995"),
    ],
    ids=" ".join,
)
def test_no_text_on_a_terminal_is_a_usage_error_with_an_example(
    program: Program, command: tuple[str, ...], example: str
) -> None:
    """A person who forgot it is not left waiting."""
    assert show(program, *command) == Finished(2, b"", f"gpt2: error: {example}\n")


def test_a_round_trip_through_ids_gives_the_text_again(program: Program) -> None:
    """Byte for byte; the one trailing newline that stdin drops is not given back."""
    line = '"$GPT2" tokens -m starter --ids | "$GPT2" tokens -m starter --decode'
    done = subprocess.run(
        ["sh", "-c", line],
        input=_HOSTILE.encode(),
        env={**program.environment, "GPT2": str(program.path)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == _HOSTILE.encode().removesuffix(b"\n")


def test_columns_of_ids_are_read_too(program: Program) -> None:
    """The first column of the lines of tokens, and the list of a record."""
    ids = program.run(*_TOKENS, "é\nx", "--ids").out
    lines = program.run(*_TOKENS, "é\nx").out
    column = b"\n".join(line.split(b"\t")[0] for line in lines.splitlines())
    listed = json.dumps(json.loads(program.run(*_TOKENS, "é\nx", "--json").out)["ids"]).encode()
    for given in (ids, column, listed):
        assert program.run(*_TOKENS, "--decode", stdin=given) == Finished(0, "é\nx".encode(), "")


def test_a_terminal_shows_decoded_text_safely_as_whole_lines(program: Program) -> None:
    """A part of a character as U+FFFD, an escape as what can be seen, and a last newline."""
    ids = program.run(*_TOKENS, "\x1b[31mé", "--ids").out.split()
    done = show(program, *_TOKENS, "-q", "--decode", *(i.decode() for i in ids[:-1]))
    assert done.err == "␛[31m�\n"


def test_tokens_need_no_runtime(program: Program) -> None:
    """Neither onnxruntime nor numpy is imported for what only the tokenizer knows."""
    done = program.run_python("-c", _NO_RUNTIME)
    assert done.err.splitlines() == ["[]"]


@pytest.mark.parametrize("command", ["score", "tokens"])
def test_help_imports_nothing_heavy(program: Program, command: str) -> None:
    """As for every command."""
    code = _NO_RUNTIME.replace("'tokens', '-m', 'starter', 'x', '--json'", f"'{command}', '-h'")
    done = program.run_python("-c", code.replace("'onnx')", "'onnx', 'tokenizers', 'rich.live')"))
    assert done.err.splitlines() == ["[]"]
