"""What a person sees who chats: whole sessions in a pseudo-terminal."""

import json
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from gpt2cli.conversations.conversation import read_conversation
from tests.e2e.program import Program
from tests.e2e.screen import CTRL_C, CTRL_Z, ENTER, TAB, Terminal

_CHAT: Final = ("chat", "-m", "starter", "--seed", "5", "-n", "12")
_GREETING: Final = "gpt2: starter (fp32 on cpu); /help, Ctrl-D leaves"
_COLOUR: Final = re.compile(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m")
_LONG: Final = ("-n", "400", "--ignore-eos")

Open = Callable[..., Terminal]


@pytest.fixture
def open_terminal(program: Program) -> Iterator[Open]:
    """Return the function that starts the program in a terminal; it has ended after the test."""
    opened: list[Terminal] = []

    def start(*arguments: str, **how: Any) -> Terminal:
        opened.append(Terminal(program, *arguments, **how))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.process.close(force=True)


def without_notes(screen: str) -> str:
    """Return what stands on the screen but notes."""
    return "\n".join(line for line in screen.split("\n") if not line.startswith("gpt2: "))


def test_a_session_as_a_person_sees_it(program: Program, open_terminal: Open) -> None:
    """Typed and pasted turns have the replies that a script of them has; Ctrl-D leaves.

    A paste of three lines is one turn (shell_gpt#505).
    """
    script = b'Hello, fox.\n"""one\ntwo\nthree"""\nGood night.\n'
    done = program.run(*_CHAT, "--json", stdin=script)
    replies = [json.loads(line)["completion"] for line in done.out.splitlines()]
    terminal = open_terminal(*_CHAT, columns=200)
    assert terminal.wait_for_prompt(1) == f"{_GREETING}\n>>> Write a message, or /help"
    terminal.say("Hello, fox.", prompt=2)
    terminal.paste("one\r\ntwo\r\nthree")
    terminal.wait_for("... three")
    terminal.say("", prompt=3)
    screen = terminal.say("Good night.", prompt=4)
    expected = [
        *(">>> Hello, fox.", replies[0], ""),
        *(">>> one", "... two", "... three", replies[1], ""),
        *(">>> Good night.", replies[2], "", ">>>"),
    ]
    assert without_notes(screen) == "\n".join(expected)
    assert terminal.leave() == 0
    assert terminal.lines[-2:] == [">>>", ""]
    assert _COLOUR.search(terminal.raw) is not None  # of the hint


def test_ctrl_c_ends_the_reply_and_not_the_chat(open_terminal: Open) -> None:
    """The next turn sees what was said; at the prompt it forgets the line."""
    terminal = open_terminal(*_CHAT, *_LONG, "--quiet")
    terminal.wait_for_prompt(1)
    terminal.type(f"Tell me a story.{ENTER}")
    terminal.wait_until(lambda: terminal.raw.count(" ") > 40)
    terminal.type(CTRL_C)
    screen = terminal.wait_for_prompt(2)
    said = screen.partition("story.\n")[2].partition("\n\n>>>")[0]
    said = _flat(said)[:60]  # no more: at Ctrl-C a terminal may drop what it has yet to show
    assert len(said) == 60
    terminal.type(f"/context{ENTER}")
    wanted = _flat("User: Tell me a story.\nBot: ") + said
    ends = "<|endoftext|>"  # after which the model went on
    terminal.wait_until(lambda: wanted in _flat("\n".join(terminal.lines)).replace(ends, ""))
    terminal.type(f"not to be said{CTRL_C}")
    terminal.wait_for_prompt(4)
    terminal.type(f"/exit{ENTER}")
    assert terminal.finish() == 0


def _flat(text: str) -> str:
    """Return text without white space: lines were cut at the terminal's edge."""
    return "".join(text.split())


def test_a_resize_does_not_disturb_the_text(program: Program, open_terminal: Open) -> None:
    """Neither in the midst of a reply nor after it: what is written is the reply alone."""
    options = (*_CHAT, "-n", "70", "--ignore-eos")
    reply = program.run(*options, stdin=b"Hello, fox.\n").out.decode()
    terminal = open_terminal(*options, "--quiet")
    terminal.wait_for_prompt(1)
    terminal.type(f"Hello, fox.{ENTER}")
    terminal.wait_for(reply[:6])
    for columns in (40, 100, 60):
        terminal.resize(columns)
        terminal.take()
    terminal.wait_for_prompt(2)
    assert reply.replace("\n", "\r\n") in terminal.raw
    terminal.resize(70)
    terminal.say("/undo", prompt=3)
    assert terminal.leave() == 0


def test_model_text_cannot_control_the_terminal(program: Program, open_terminal: Open) -> None:
    """A model that only writes ESC shows it, as the prompt line does; in a pipe it is untouched."""
    options = (*_CHAT, "-n", "3", "--greedy", "--logit-bias", "\x1b=100")
    assert program.run(*options, stdin=b"Hi\n").out == b"\x1b\x1b\x1b\n"
    terminal = open_terminal(*options, "--quiet")
    terminal.wait_for_prompt(1)
    terminal.type("Hi\u202e[/bo\u200bd]\x1b[D\x1b[D\x1b[D\x1b[3~l")  # U+200B is replaced
    screen = terminal.say("", prompt=2)
    assert screen.split("\n") == [">>> Hi<U+202E>[/bold]", "␛␛␛", "", ">>>"]
    assert terminal.leave() == 0


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_can_be_unwanted(open_terminal: Open, environment: dict[str, str]) -> None:
    """A terminal that knows nothing has a prompt all the same."""
    terminal = open_terminal(*_CHAT, "--quiet", environment=environment)
    terminal.wait_for(">>> ")
    terminal.type(f"/exit{ENTER}")
    assert terminal.finish() == 0
    assert _COLOUR.search(terminal.raw) is None


def test_replies_can_go_to_a_file(open_terminal: Open, tmp_path: pathlib.Path) -> None:
    """Then the prompt, notes and commands' answers are on the terminal, and nothing else there."""
    file = tmp_path / "log"
    line = f'exec "$GPT2" chat -m starter --seed 5 -n 4 > {file}'
    terminal = open_terminal(shell=line)
    assert terminal.wait_for_prompt(1) == f"{_GREETING}\n>>> Write a message, or /help"
    terminal.say("/set top-k 7", prompt=2)
    screen = terminal.say("Hi", prompt=3)
    assert terminal.leave() == 0
    assert without_notes(screen) == ">>> /set top-k 7\ntop-k 7\n>>> Hi\n>>>"
    assert file.read_text().count("\n") == 1
    assert "\x1b" not in file.read_text()


def test_notes_can_go_to_a_file(open_terminal: Open, tmp_path: pathlib.Path) -> None:
    """Then prompt and replies are alone on the terminal."""
    file = tmp_path / "err"
    terminal = open_terminal(shell=f'exec "$GPT2" chat -m starter --seed 5 -n 4 2> {file}')
    terminal.wait_for_prompt(1)
    screen = terminal.say("Hi", prompt=2)
    terminal.say("/nosuch", prompt=3)
    assert terminal.leave() == 0
    assert [line[:3] for line in screen.split("\n")][::3] == [">>>", ">>>"]
    assert file.read_text().startswith(f"{_GREETING}\ngpt2: stopped after 4 tokens")
    assert file.read_text().endswith("(a space before it sends the line as a message)\n")


def test_the_last_message_is_edited_in_the_users_editor(
    open_terminal: Open, tmp_path: pathlib.Path
) -> None:
    """And sent in place of what was said, which the session then has."""
    session = tmp_path / "session.json"
    options = ("--quiet", "--session", str(session))
    terminal = open_terminal(*_CHAT, *options, environment={"EDITOR": "sed -i s/fox/owl/"})
    terminal.wait_for_prompt(1)
    terminal.say("Hello, fox.", prompt=2)
    screen = terminal.say("/edit", prompt=3)
    assert terminal.leave() == 0
    assert ">>> /edit\nHello, owl.\n" in screen
    assert [turn.message for turn in read_conversation(session).turns] == ["Hello, owl."]


def test_tab_completes_commands_and_options(open_terminal: Open) -> None:
    """The common beginning first; then a list of what there is, as shells do it."""
    terminal = open_terminal(*_CHAT, "--quiet")
    terminal.wait_for_prompt(1)
    terminal.type(f"/r{TAB}{TAB}")
    terminal.wait_for(">>> /re\n/regen /read  /reset\n>>> /re")
    terminal.type(f"g{TAB}")
    terminal.wait_for(">>> /regen")
    terminal.type(f"{CTRL_C}")
    terminal.wait_for_prompt(2)
    terminal.type(f"/set max-n{TAB}")
    terminal.wait_for("/set max-new-tokens")
    terminal.say(" 3", prompt=3)
    terminal.wait_for("max-new-tokens 3")
    assert terminal.leave() == 0


def test_ctrl_z_puts_it_into_the_background(open_terminal: Open) -> None:
    """And it comes back to where it was."""
    line = 'set -m; "$GPT2" chat -m starter --quiet; echo "in the shell"; fg > /dev/null'
    terminal = open_terminal(shell=line)
    terminal.wait_for_prompt(1)
    terminal.type(f"/ex{CTRL_Z}")
    terminal.wait_for("in the shell\n>>> /ex")
    terminal.type(f"it{ENTER}")
    assert terminal.finish() == 0
