"""Claims about the commands of a chat, each typed into one with a scripted model."""

import json
import pathlib
from collections.abc import Callable

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from gpt2cli.chat.commands import COMMANDS
from gpt2cli.chat.prompt import CommandCompleter
from gpt2cli.chat.settable import all_options
from gpt2cli.conversations.conversation import Conversation, read_conversation, write_conversation
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.dialogues import Session, open_session

Run = Callable[..., tuple[str, str]]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def session(ascii_tokenizer: Tokenizer) -> Session:
    return open_session(ascii_tokenizer, on_terminal=True, conversation=Conversation(system="s"))


@pytest.fixture
def run(session: Session, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return the function that types lines: it gives what came on stdout and on stderr."""

    def type_lines(*lines: str) -> tuple[str, str]:
        out = session.run(*lines)
        return out, capsys.readouterr().err

    return type_lines


def test_help_lists_every_command(run: Run) -> None:
    """In one line each, no longer than a terminal is wide; and what the keys do."""
    out, err = run("/help")
    lines = err.splitlines()
    assert out == ""
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[: len(COMMANDS)]] == list(COMMANDS)
    assert "Ctrl-C" in err
    assert '"""' in err


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_explained(run: Run, name: str) -> None:
    """With and without its slash."""
    _, err = run(f"/help {name}", f"/help {name[1:]}")
    half = err[: len(err) // 2]
    assert err == 2 * half
    assert half.startswith(f"{COMMANDS[name].usage}  {COMMANDS[name].summary}\n")
    assert max(map(len, half.splitlines())) <= 100


@pytest.mark.parametrize("line", ["/nosuch", "/usr/bin is a folder", "/help nosuch"])
def test_what_is_no_command_is_an_error_that_helps(run: Run, session: Session, line: str) -> None:
    """It says how such a line becomes a message, and is none."""
    _, err = run(line)
    assert err.startswith("gpt2: error: there is no command ")
    assert err.endswith("/help lists them (a space before it sends the line as a message)\n")
    assert session.turns == []


@pytest.mark.parametrize(
    ("lines", "out", "err", "turns"),
    [
        # Also by the names that other chats have for it; what follows is not read.
        *((f"a\n{line}\nb", "A", "", "a") for line in ("/exit", "/bye", "/quit", "/exit now")),
        ("/set\ttop-k \t 7  ", "", "top-k 7\n", ""),
        ("a\nb\n/undo", "AB", "taken back: b\n", "a"),
        ("a\n/undo\n/undo", "A", "taken back: a\ngpt2: error: nothing has been said yet\n", ""),
        ("/regen", "", "gpt2: error: nothing has been said yet\n", ""),
        ("a\n/regen", "AA", "", "a"),
        # The system text and the settings stay.
        (
            "/set top-k 7\na\n/reset\n/context\n/set top-k",
            "A",
            "top-k 7\nthe conversation starts over\ns\n\n\n(3 tokens, 197 left)\ntop-k 7\n",
            "",
        ),
    ],
    ids=repr,
)
def test_commands_change_what_was_said(
    run: Run, session: Session, lines: str, out: str, err: str, turns: str
) -> None:
    shown, told = run(*lines.split("\n"))
    assert shown == "".join(f"{reply}\n\n" for reply in out)
    assert told.startswith(err) and (err or not told)
    assert session.turns == [(message, message.upper()) for message in turns]


# Settings


def test_set_alone_shows_every_option(run: Run) -> None:
    _, err = run("/set")
    shown = dict(line.split(None, 1) for line in err.splitlines())
    assert list(shown) == [option.name for option in all_options()]
    assert (shown["max-new-tokens"], shown["seed"], shown["greedy"]) == ("40", "random", "on")


def test_set_explains_one_option(run: Run) -> None:
    """Its value, then what the command line's help says."""
    _, err = run("/set top-p")
    value, told = err.splitlines()
    assert value == "top-p 1.0"
    assert "Between 0 and 1" in told


def test_set_changes_the_replies_that_come(run: Run) -> None:
    out, err = run("/set max-new-tokens 3", "abc", "def", "/set max-new-tokens default", "abc")
    assert out == "AB\n\nDE\n\nABC\n\n"
    assert err.splitlines()[0] == "max-new-tokens 3"
    assert err.splitlines()[-1] == "max-new-tokens 128"


def test_what_cannot_be_set_changes_nothing(run: Run, session: Session) -> None:
    """Out of range, unknown, at odds with another option, or no token of the model's."""
    before = session.dialogue.chat.settings
    wrong = (
        *("/set top-p 2", "/set top-p x", "/set nosuch 1", "/set seed -1", "/set overflow x"),
        *("/set greedy maybe", '/set stop ""', "/set min-new-tokens 99", "/set logit-bias ab=1"),
        *("/set logit-bias 97=1", "/set logit-bias a", "/set session x", "/set model x"),
    )
    _, err = run(*wrong)
    assert err.count("gpt2: error: ") == len(wrong) == err.count("\n")
    assert session.dialogue.chat.settings is before


def test_show_tells_all_that_holds(run: Run) -> None:
    """The model, who speaks, how much was said, where it is kept, and every option."""
    _, err = run("a", "/show")
    shown = dict(line.split(None, 1) for line in err.splitlines())
    assert shown["model"] == "m, fp32 on cpu, 200 tokens"
    assert (shown["template"], shown["names"]) == ("transcript", "User, Bot")
    assert (shown["system"], shown["turns"], shown["session"]) == ("s", "1", "not kept")
    assert {option.name for option in all_options()} <= shown.keys()


# Turns


def test_context_is_the_exact_text(run: Run) -> None:
    """And the number of its tokens, and what is left; what would control a terminal is visible."""
    _, err = run("a\x1b", "/context")
    text = "s\n\nUser: a\x1b\nBot: A\x1b"
    # The tokenizer of printable ASCII has no ESC: what it cannot encode is not seen.
    seen = text.replace("\x1b", "")
    assert err == f"{seen}\n({len(seen)} tokens, {200 - len(seen)} left)\n"


def test_stats_tell_of_the_last_reply(run: Run) -> None:
    """The twentieth turn has prefilled its own tokens only."""
    assert run("/stats")[1] == "no reply yet\n"
    _, err = run(*["hi"] * 8, "/stats")
    assert f"prefill {len('_User: hi_Bot:')} tokens in " in err
    assert "decode 3 tokens in " in err
    assert "\nseed " in err


# The system text


def test_the_system_text_is_shown_changed_and_taken_away(run: Run) -> None:
    r"""As the option: \n is a newline, and quotes keep the spaces within them."""
    _, err = run("/system", r"/system A wood.\nNight.", "a", "/context", '/system ""', "/context")
    seen = "User: a\nBot: A"
    expected = [
        *("s", "A wood.\nNight.", f"A wood.\nNight.\n\n{seen}", "(30 tokens, 170 left)"),
        *("there is no system text", seen, "(14 tokens, 186 left)"),
    ]
    assert err == "".join(f"{line}\n" for line in expected)


def test_undo_leaves_the_system_text_and_the_session_keeps_it(
    ascii_tokenizer: Tokenizer, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "session.json"
    open_session(ascii_tokenizer, session=path).run("a", "/system x", "b", "/undo")
    kept = read_conversation(path)
    assert (kept.system, [turn.message for turn in kept.turns]) == ("x", ["a"])


@pytest.mark.parametrize("text", ["s", "other"])
def test_replies_that_another_system_text_preceded_are_read(
    run: Run, session: Session, text: str
) -> None:
    """What was drawn after it is no longer what would be drawn; the same text changes nothing."""
    run("ab", f"/system {text}")
    [turn] = session.dialogue.chat.conversation.turns
    assert turn.drawn == (len(" AB") if text == "s" else 0)


def test_a_system_text_that_leaves_no_room_is_refused(run: Run, session: Session) -> None:
    """At once, and the old one stays."""
    _, err = run(f"/system {190 * 'x'}")
    assert "the system text has 192 tokens" in err
    assert session.dialogue.chat.conversation.system == "s"


# Messages from files


def test_a_file_is_read_as_a_message(run: Run, session: Session, tmp_path: pathlib.Path) -> None:
    """All its lines, without the white space around them, whatever they begin with."""
    path = tmp_path / "my notes.txt"
    path.write_bytes(b"\n/undo\nb  \n\n")
    assert run(f"/read {path}") == ("/UNDO\nB\n\n", f"sent {path}, 7 characters\n")
    assert session.turns == [("/undo\nb", "/UNDO\nB")]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("missing", "is missing"),
        (".", "is a directory, expected a file"),
        ("blank", "is empty; nothing was sent"),
        ("latin", "is not valid UTF-8 (byte 3)"),
        ("large", "has 1048577 bytes, expected at most 1048576"),
        ("/dev/zero", "is not a regular file"),
    ],
)
def test_what_is_no_message_is_not_read(
    run: Run, session: Session, tmp_path: pathlib.Path, name: str, fault: str
) -> None:
    """In one line; nothing is sent."""
    (tmp_path / "blank").write_text(" \n")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**20 + 1)
    _, err = run(f"/read {tmp_path / name}")
    assert err.startswith(f"gpt2: error: /read: {tmp_path / name} {fault}")
    assert err.count("\n") == 1
    assert session.turns == []


def test_a_file_that_outgrows_the_context_is_refused(run: Run, tmp_path: pathlib.Path) -> None:
    (tmp_path / "long").write_text(300 * "x")
    _, err = run(f"/read {tmp_path / 'long'}")
    assert "tokens, the model takes 200" in err
    assert err.count("\n") == 1


# The editor


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.delenv("VISUAL", raising=False)
    return lambda line: monkeypatch.setenv("EDITOR", line)


def test_edit_sends_the_message_as_it_was_edited(
    run: Run, session: Session, editor: Callable[[str], None]
) -> None:
    """In place of the last one, and shows it; the turn before stays."""
    editor("sed -i s/b/changed/")
    out, err = run("a", "b", "/edit")
    assert (out, err) == ("A\n\nB\n\nCHANGED\n\n", "changed\n")
    assert session.turns == [("a", "A"), ("changed", "CHANGED")]


def test_edit_begins_a_conversation_too(run: Run, editor: Callable[[str], None]) -> None:
    editor("sh -c 'printf \"one\\ntwo\" > $0'")
    assert run("/edit") == ("ONE\nTWO\n\n", "one\ntwo\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("truncate -s 0", "/edit: the text is empty; nothing was sent"),
        ("false", "the editor 'false' ended with code 1; nothing was sent"),
    ],
)
def test_an_editor_that_leaves_nothing_sends_nothing(
    run: Run, session: Session, editor: Callable[[str], None], line: str, reason: str
) -> None:
    editor(line)
    _, err = run("a", "/edit")
    assert reason in err
    assert session.turns == [("a", "A")]


def test_a_script_has_no_editor(ascii_tokenizer: Tokenizer, capsys: Capture) -> None:
    assert open_session(ascii_tokenizer).run("/edit", "a") == "A\n"
    assert capsys.readouterr().err == "gpt2: error: line 1: /edit: expected a terminal\n"


# Files


def test_what_was_saved_can_be_loaded(run: Run, session: Session, tmp_path: pathlib.Path) -> None:
    """With its names and its system text; the settings stay as they are."""
    path = tmp_path / "my talk.json"
    _, err = run("a", "b", f"/save {path}", "/reset", "/set top-k 7", f"/load {path}", "c")
    assert session.turns == [("a", "A"), ("b", "B"), ("c", "C")]
    assert f"saved to {path}" in err.splitlines()
    assert f"loaded 2 turns from {path}" in err.splitlines()
    assert session.dialogue.chat.settings.values["top_k"] == 7
    run(f"/save {path}")
    assert len(read_conversation(path).turns) == 3


def test_other_names_hold_from_then_on(run: Run, session: Session, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "talk.json"
    write_conversation(path, Conversation(user_name="U", bot_name="B", system="x"), model="m")
    run(f"/load {path}")
    exchange = session.dialogue.chat.ask("hi")
    assert exchange.request.generation.stop == ("\nU:",)
    assert session.dialogue.chat.context()[0] == "x\n\n"


@pytest.mark.parametrize("name", ["plain", "missing/talk.json", ".", "nul\0", "/dev/null"])
def test_a_place_that_is_not_for_conversations_is_left_alone(
    run: Run, session: Session, tmp_path: pathlib.Path, name: str
) -> None:
    """Neither written over nor loaded; the chat goes on."""
    (tmp_path / "plain").write_text("precious")
    out, err = run("a", f"/save {tmp_path / name}", f"/load {tmp_path / name}", "b")
    assert out == "A\n\nB\n\n"
    assert session.turns == [("a", "A"), ("b", "B")]
    assert err.count("gpt2: error: ") == 2
    assert (tmp_path / "plain").read_text() == "precious"
    assert list(tmp_path.iterdir()) == [tmp_path / "plain"]


@pytest.mark.parametrize(
    "line", ["/save", "/load", "/read", "/save ~nosuchuser/x", "/read ~nosuchuser/x"]
)
def test_a_command_that_needs_a_file_says_so(run: Run, line: str) -> None:
    _, err = run(line)
    assert err.startswith(f"gpt2: error: {line.split()[0]}: ")
    assert err.count("\n") == 1


def test_a_tilde_is_the_users_home(
    run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run("a", "/save ~/talk.json")
    assert json.loads((tmp_path / "talk.json").read_bytes())["turns"][0]["reply"] == "A"


# Completion


def completions(text: str) -> list[str]:
    found = CommandCompleter().get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + one.start_position] + one.text for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/s", ["/set", "/system", "/show", "/save", "/stats"]),
        ("/re", ["/regen", "/read", "/reset"]),
        ("/nosuch", []),
        ("", []),
        ("hello /s", []),
        ("/help s", [f"/help {name}" for name in ("set", "system", "show", "save", "stats")]),
        ("/set top-", ["/set top-k", "/set top-p", "/set top-n-sigma"]),
        ("/set top-k 4", []),
    ],
)
def test_commands_and_options_are_completed(text: str, expected: list[str]) -> None:
    assert completions(text) == expected


def test_files_are_completed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("talk one.json", "talk2.json", "other"):
        (tmp_path / name).touch()
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks" / "x").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = ["talk one.json", "talk2.json", "talks"]
    assert completions("/save ta") == [f"/save {name}" for name in found]
    assert completions(f"/load {tmp_path}/ta") == [f"/load {tmp_path}/{name}" for name in found]
    assert completions("/read ~/ta") == [f"/read ~/{name}" for name in found]
    assert completions("/load ~/ta") == [f"/load ~/{name}" for name in found]
    assert completions("/load talks/") == ["/load talks/x"]
    assert completions("/load talk o") == ["/load talk one.json"]


def test_the_name_of_a_file_is_safe_to_show(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would control the terminal is visible in the menu."""
    (tmp_path / "x\x1b[31m").touch()
    monkeypatch.chdir(tmp_path)
    [found] = CommandCompleter().get_completions(Document("/save x"), CompleteEvent())
    assert found.display_text == "x␛[31m"


@pytest.mark.parametrize("text", ["/load nosuch/", "/load ~nosuchuser/", "/load a\0/", "/save \0"])
def test_where_there_are_no_files_nothing_is_completed(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error here would end the chat."""
    monkeypatch.chdir(tmp_path)
    assert completions(text) == []
