"""What ends the program from outside, at every moment: its code, its words, and the terminal."""

import pathlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from gpt2cli.conversations.conversation import read_conversation
from tests.e2e.program import Finished, Program, finish, read_until, send
from tests.e2e.screen import CTRL_C, CTRL_Z, ENTER, Terminal

_ENDLESS: Final = ("--ignore-eos", "--overflow", "slide", "-n", "100000")
_CTRL_U: Final = "\x15"
_PROMPT_BEGINS: Final = "\x1b[?2004h"  # bracketed paste is on while a prompt stands there
_SEARCH: Final = "\x12"
_CODES: Final = {"SIGTERM": 143, "SIGHUP": 129}


@dataclass(frozen=True)
class Moment:
    """A command in a terminal, and how to come to where it is to end."""

    arguments: tuple[str, ...]
    come: Callable[[Terminal], object]


def _type_at_prompt(keys: str) -> Callable[[Terminal], object]:
    def come(terminal: Terminal) -> None:
        terminal.wait_for_prompt(1)
        terminal.type(keys)
        terminal.wait_for("half a")

    return come


def _begin_reply(terminal: Terminal) -> None:
    terminal.wait_for_prompt(1)
    terminal.type(f"Tell me.{ENTER}")
    terminal.wait_until(lambda: len(terminal.raw.partition("\x1b[?2004l")[2].split()) > 20)


def _wait_for(shown: str) -> Callable[[Terminal], object]:
    return lambda terminal: terminal.wait_until(lambda: re.search(shown, terminal.raw) is not None)


_CHAT: Final = ("chat", "-m", "starter", "--stop", "@", *_ENDLESS)
_MOMENTS: Final = {
    "prompt": Moment(_CHAT, _type_at_prompt("half a line")),
    "search": Moment(_CHAT, _type_at_prompt(f"{_SEARCH}half a")),
    "reply": Moment(_CHAT, _begin_reply),
    "text": Moment(("generate", "-m", "starter", *_ENDLESS, "x"), _wait_for(r"\w \w+ ")),
    "bar": Moment(("batch", "-m", "starter", *_ENDLESS, "lines", "-o", "o"), _wait_for("0 rec")),
    "question": Moment(("models", "rm", "starter"), _wait_for(r"\[y/N\]")),
}


@pytest.fixture
def begin(
    program: Program, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Terminal]]:
    """Return the function that comes to a moment, with the options that are added."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text("a\n")
    opened: list[Terminal] = []

    def begin_at(moment: str, *options: str) -> Terminal:
        opened.append(Terminal(program, *_MOMENTS[moment].arguments, *options))
        _MOMENTS[moment].come(opened[0])
        return opened[0]

    yield begin_at
    for terminal in opened:
        terminal.process.closed = True  # the test may have closed it
        terminal.process.terminate(force=True)


@pytest.mark.parametrize(
    ("moment", "name"),
    [
        *((moment, "SIGTERM") for moment in _MOMENTS),
        *((moment, "SIGHUP") for moment in ("prompt", "question")),
    ],
)
def test_who_is_told_to_end_leaves_the_terminal_as_it_was(
    begin: Callable[..., Terminal], moment: str, name: str
) -> None:
    """All modes are those from before, and nothing is said."""
    terminal = begin(moment)
    begun = len(terminal.raw)
    terminal.process.kill(getattr(signal, name))

    assert terminal.finish() == _CODES[name]
    assert "gpt2:" not in terminal.raw[begun:]


@pytest.mark.parametrize("moment", ["prompt", "text", "bar", "question"])
def test_a_terminal_that_is_closed_ends_the_program(
    begin: Callable[..., Terminal], moment: str
) -> None:
    """With SIGHUP's code, or as a known failure where writing fails first."""
    assert begin(moment).close() in (1, 129)


def test_a_terminal_that_is_closed_in_a_reply_leaves_it_to_the_session(
    begin: Callable[..., Terminal], tmp_path: pathlib.Path
) -> None:
    """The message and what was made of the reply; here SIGHUP is ignored, as by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert begin("reply", "--session", "s.json").close() == 1
    finally:
        signal.signal(signal.SIGHUP, before)

    [turn] = read_conversation(tmp_path / "s.json").turns
    assert turn.message == "Tell me."
    assert len(turn.reply.split()) > 10


def test_what_is_typed_in_a_reply_waits_for_the_next_prompt(
    begin: Callable[..., Terminal],
) -> None:
    """It does not stand in the reply, nor does ^C."""
    terminal = begin("reply", "-n", "200")
    terminal.type("zebra")
    terminal.wait_for(">>> zebra")
    reply, _, _ = terminal.raw.rpartition(_PROMPT_BEGINS)
    assert "zebra" not in reply
    terminal.type(f"{_CTRL_U}/exit{ENTER}")
    assert terminal.finish() == 0


def test_ctrl_z_in_a_reply_gives_the_shell_its_echo_back(program: Program) -> None:
    """And it is off again when the program goes on."""
    line = f'set -m; "$GPT2" {" ".join(_CHAT)}; stty -a | grep -o " -*echo "; fg'
    terminal = Terminal(program, shell=line)
    _begin_reply(terminal)
    terminal.type(CTRL_Z)
    terminal.wait_until(lambda: " echo \r\n" in terminal.raw)
    terminal.wait_until(lambda: terminal.raw.partition(" echo \r\n")[2].count(" ") > 20)
    terminal.type(CTRL_C)
    terminal.wait_for_prompt(2)
    assert "^C" not in terminal.raw
    assert terminal.leave() == 0


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_impatience_changes_nothing(program: Program, name: str, code: int) -> None:
    """Signals that come while the first one ends the program are not heard, to its last moment."""
    arguments = ("batch", "-m", "starter", "-q", "-", "--format", "text")
    with program.start(*arguments, stdin=b"") as process:
        send(process, b"a\n")
        read_until(process.stdout, b"\n")
        while process.poll() is None:
            process.send_signal(getattr(signal, name))
            time.sleep(0.01)
        assert finish(process) == Finished(code, b"", "")


def test_a_signal_in_the_interpreters_own_end_changes_nothing(program: Program) -> None:
    """All is written by then, and the exit code is known."""
    script = (
        "import atexit, signal, sys; from gpt2cli.__main__ import main;"
        "atexit.register(signal.raise_signal, signal.SIGINT);"
        "sys.argv = ['gpt2', '--version']; main()"
    )
    assert program.run_python("-c", script) == Finished(0, b"0.1.0\n", "")


# A stream that takes nothing


@pytest.mark.parametrize(
    ("arguments", "code"), [("wrong", 2), ("tokens -m nowhere x", 1), ("tokens -m starter x", 0)]
)
def test_a_full_stderr_changes_no_exit_code(program: Program, arguments: str, code: int) -> None:
    """Nobody can be told, but a script sees how it ended."""
    assert program.run_shell(f'"$GPT2" {arguments} 2> /dev/full').code == code


def test_files_that_may_not_grow_are_a_failure(program: Program, tmp_path: pathlib.Path) -> None:
    """As by `ulimit -f 0`, for both streams."""
    line = 'trap "" XFSZ; ulimit -f 0; exec "$GPT2" tokens -m starter x > out 2> err'
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert program.run_shell(line) == Finished(1, b"", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
@pytest.mark.parametrize("library", ["numpy", "onnxruntime"])
def test_too_little_memory_to_start_is_a_failure_of_one_line(
    program: Program, library: str
) -> None:
    """Wherever it runs out first; an installation that is whole is not called damaged."""
    script = (
        f"import importlib, resource, sys; {'import numpy;' if library != 'numpy' else ''}"
        "from gpt2cli.__main__ import main;"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 20_000_000,) * 2);"
        "sys.argv = ['gpt2', 'generate', '-m', 'starter', 'x']; main()"
    )
    done = program.run_python("-c", script)
    assert done == Finished(1, b"", "gpt2: error: there is not enough memory to start\n")


def test_no_thread_is_waited_for_at_the_end(program: Program) -> None:
    """Such as one that still loads a draft for a text that is finished: this one never ends."""
    lines = (
        "import gpt2cli.draft_loading, threading",
        "gpt2cli.draft_loading.LookupDraft.__new__ = lambda kind: threading.Event().wait()",
        "from gpt2cli.__main__ import main",
        "main()",
    )
    text = ("generate", "x", "-m", "starter", "-n", "4", "--ignore-eos", "--no-echo")
    drafted = program.run_python("-c", "\n".join(lines), *text, "--draft", "lookup", "--seed", "1")
    assert (drafted.code, drafted.err) == (0, "")
    assert len(drafted.out) > 4
