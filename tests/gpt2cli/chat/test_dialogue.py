"""Claims about a chat in progress: what is told, what goes on, what ends it."""

import json
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from gpt2cli.conversations.conversation import Conversation, read_conversation
from gpt2cli.errors import ModelError, OutputError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.dialogues import Session, open_session
from tests.gpt2cli.chat.talking import shout

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C do what it does in a program in the foreground."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["told to end", "the terminal has gone"])
def end_in_reply(request: pytest.FixtureRequest) -> Callable[[Session], type[BaseException]]:
    """Return what ends the program in the midst of a reply, and gives the exception for it."""

    def close(session: Session) -> type[BaseException]:
        write, pieces = session.dialogue.view.show, count(1)

        def write_and_fail(piece: str) -> None:
            if next(pieces) == 2:
                raise OutputError("cannot write the result: Input/output error")
            write(piece)

        setattr(session.dialogue.view, "show", write_and_fail)  # noqa: B010
        return OutputError

    return tell_to_end if request.param == "told to end" else close


def tell_to_end(session: Session) -> type[BaseException]:
    """Let the third step of the model's work meet what SIGTERM raises."""
    decode, steps = session.engine.decode, count(1)

    def decode_and_exit(ids: Sequence[int]) -> Any:
        if next(steps) == 3:
            sys.exit(143)
        return decode(ids)

    setattr(session.engine, "decode", decode_and_exit)  # noqa: B010
    return SystemExit


def press_in_reply(session: Session, *, at: int, times: int = 1) -> None:
    """Let Ctrl-C be pressed in the midst of the model's work, at this step."""
    decode, steps = session.engine.decode, count(1)

    def decode_and_press(ids: Sequence[int]) -> Any:
        result = decode(ids)
        if next(steps) == at:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        return result

    setattr(session.engine, "decode", decode_and_press)  # noqa: B010  # mypy: no assignment


def test_a_script_is_answered_line_by_line(ascii_tokenizer: Tokenizer, capsys: Capture) -> None:
    """One newline after each reply, and nothing else anywhere."""
    session = open_session(ascii_tokenizer)
    assert session.run("a", "", "b", '"""c', 'd"""') == "A\nB\nC\nD\n"
    assert session.turns == [("a", "A"), ("b", "B"), ("c\nd", "C\nD")]
    assert capsys.readouterr().err == ""
    assert not session.dialogue.failed


def test_a_model_that_fails_is_told_and_the_chat_goes_on(
    ascii_tokenizer: Tokenizer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(ascii_tokenizer)

    def fail(*arguments: Any) -> Any:
        raise ModelError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(session.engine, "decode", fail)
        session.run("ab")
    assert capsys.readouterr().err == "gpt2: error: line 1: out of memory\n"
    assert session.turns == []
    assert session.run("ab") == "AB\n"


def test_replies_that_cannot_be_written_end_it(
    ascii_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(ascii_tokenizer)

    def fail(piece: str) -> None:
        raise OutputError("full")

    monkeypatch.setattr(session.dialogue.view, "show", fail)
    with pytest.raises(OutputError):
        session.run("a", "b")


def test_a_reader_who_left_ends_it(ascii_tokenizer: Tokenizer) -> None:
    """In the midst of a reply, and before the next message is read."""
    session = open_session(ascii_tokenizer)
    session.dialogue.abandoned = lambda: bool(session.turns)
    assert session.run("a", "b") == "A\n"
    session = open_session(ascii_tokenizer)
    session.dialogue.abandoned = lambda: session.engine.count("decode") > 2
    assert session.run("abcdef", "b") == "ABC\n"


# Ctrl-C


@pytest.mark.parametrize(("at", "times"), [(2, 1), (3, 2), (3, 3)])
def test_ctrl_c_ends_the_reply_and_keeps_it(
    ascii_tokenizer: Tokenizer, at: int, times: int
) -> None:
    """On a terminal the chat goes on, also if people press it twice; the next message sees it."""
    session = open_session(ascii_tokenizer, on_terminal=True)
    press_in_reply(session, at=at, times=times)
    assert session.run("abcdef", "x") == "AB\n\nX\n\n"
    assert session.turns == [("abcdef", "AB"), ("x", "X")]
    assert session.dialogue.chat.context()[0] == "User: abcdef\nBot: AB\nUser: x\nBot: X"


def test_ctrl_c_in_a_script_ends_it_with_what_was_made(ascii_tokenizer: Tokenizer) -> None:
    """Nobody types the next line: all of it was meant to run."""
    session = open_session(ascii_tokenizer)
    press_in_reply(session, at=2)
    assert session.run("abcdef", "x") == "AB\n"
    assert session.dialogue.interrupted


def test_ctrl_c_pressed_twice_in_a_script_ends_it_at_once(ascii_tokenizer: Tokenizer) -> None:
    """As everywhere; the line that was begun is finished."""
    session = open_session(ascii_tokenizer)
    press_in_reply(session, at=3, times=2)
    with pytest.raises(KeyboardInterrupt):
        session.run("abcdef", "x")
    assert session.written() == "AB\n"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_ctrl_c_between_replies_ends_only_what_goes_on(
    ascii_tokenizer: Tokenizer, on_terminal: bool
) -> None:
    """It may come just after a reply has ended, or while a command runs."""
    session = open_session(ascii_tokenizer, on_terminal=on_terminal)
    if not on_terminal:
        with pytest.raises(KeyboardInterrupt):
            session.run("a", KeyboardInterrupt(), "b")
        return
    assert session.run("a", KeyboardInterrupt(), "b") == "A\n\nB\n\n"


# What ends the program


def test_the_session_keeps_the_reply_that_the_programs_end_has_cut_short(
    ascii_tokenizer: Tokenizer,
    tmp_path: pathlib.Path,
    end_in_reply: Callable[[Session], type[BaseException]],
) -> None:
    """With its message, as after Ctrl-C."""
    file = tmp_path / "session.json"
    session = open_session(ascii_tokenizer, on_terminal=True, session=file)
    ending = end_in_reply(session)
    with pytest.raises(ending):
        session.run("abcdef", "x")
    [turn] = read_conversation(file).turns
    assert (turn.message, turn.reply) == ("abcdef", "AB")
    assert turn.finish_reason is FinishReason.INTERRUPTED


def test_who_is_told_to_end_waits_for_no_reader(ascii_tokenizer: Tokenizer) -> None:
    """The line that was begun is not finished: a full pipe would take nothing."""
    session = open_session(ascii_tokenizer)
    tell_to_end(session)
    with pytest.raises(SystemExit):
        session.run("abcdef")
    assert session.written() == "AB"


# What is told


def test_a_conversation_that_outgrows_the_model_is_told_once(
    ascii_tokenizer: Tokenizer, capsys: Capture
) -> None:
    """At the first turn that makes others go; every reply is there."""
    session = open_session(ascii_tokenizer, conversation=Conversation(system="A wood."))
    messages = [f"turn {number}" for number in range(60)]
    assert session.run(*messages) == "".join(f"{message.upper()}\n" for message in messages)
    assert capsys.readouterr().err == (
        "gpt2: the conversation has outgrown the model's 200 tokens: the model no longer sees its "
        "oldest turns (/context shows what it sees)\n"
    )
    assert session.dialogue.chat.context()[0].startswith("A wood.\n\nUser: turn ")


def test_what_was_left_out_of_a_long_message_is_told(
    ascii_tokenizer: Tokenizer, capsys: Capture
) -> None:
    """At every such turn, on stderr and in its record."""
    session = open_session(ascii_tokenizer, n_positions=100, as_records=True)
    [record] = map(
        json.loads, session.run("/set overflow slide", "m" * 192 + " User: b").splitlines()
    )
    assert (record["prompt_tokens"], record["truncated_prompt_tokens"]) == (211, 161)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "gpt2: left out 161 of the prompt's 211 tokens and kept its end: the model takes 100"
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_a_person_is_told_once_what_cut_a_reply(
    ascii_tokenizer: Tokenizer, capsys: Capture, quiet: bool
) -> None:
    session = open_session(ascii_tokenizer, on_terminal=True, quiet=quiet, n_positions=400)
    session.run("m" * 50, "m" * 50)
    told = "gpt2: stopped after 40 tokens; /set max-new-tokens N changes that\n"
    assert capsys.readouterr().err == ("" if quiet else told)


def test_a_person_is_told_that_time_ended_a_reply(
    ascii_tokenizer: Tokenizer, capsys: Capture
) -> None:
    """Here after the space before it."""
    session = open_session(ascii_tokenizer, on_terminal=True, max_time=1e-9)
    session.run("mm")
    assert session.turns == [("mm", "")]
    told = "gpt2: stopped after 1e-09 s; /set max-time S changes that"
    assert capsys.readouterr().err.splitlines() == [told, "gpt2: the model said nothing"]


def test_a_reply_that_met_the_models_limit_is_told(
    ascii_tokenizer: Tokenizer, capsys: Capture
) -> None:
    session = open_session(ascii_tokenizer)
    session.run("m" * 189, "a")
    assert capsys.readouterr().err.splitlines()[0] == (
        "gpt2: stopped at the model's limit of 200 tokens; the next message drops the oldest turns"
    )
    assert session.turns[1] == ("a", "A")


def test_an_empty_reply_is_told_to_a_person(ascii_tokenizer: Tokenizer, capsys: Capture) -> None:
    """Who would else wonder; a script has its empty line."""
    open_session(ascii_tokenizer, lambda message: "\n", on_terminal=True).run("a")
    assert capsys.readouterr().err == "gpt2: the model said nothing\n"
    session = open_session(ascii_tokenizer, lambda message: "\n")
    assert session.run("a", "b") == "\n\n"
    assert capsys.readouterr().err == ""


def test_statistics_are_told_after_each_reply(ascii_tokenizer: Tokenizer, capsys: Capture) -> None:
    """Also when quiet: they were asked for; the second turn prefills only its own tokens."""
    session = open_session(ascii_tokenizer, stats=True, quiet=True, seed=7)
    assert session.run("hi", "hi") == "HI\nHI\n"
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("seed")] == ["seed 7", "seed 8"]
    prefills = [line.split()[1] for line in lines if line.startswith("prefill")]
    assert prefills == [str(len("User: hi\nBot:")), str(len("\nUser: hi\nBot:"))]


def test_records_are_one_for_each_turn(ascii_tokenizer: Tokenizer) -> None:
    """Commands have none; a turn drawn anew has its number again."""
    session = open_session(
        ascii_tokenizer, lambda message: f"{shout(message)}\nUser:", as_records=True, seed=5
    )
    lines = session.run("a", "/help", "/nosuch", "b", "/regen", "/undo").splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["index"], r["prompt"], r["completion"], r["seed"]) for r in records] == [
        (0, "a", "A", 5),
        (1, "b", "B", 6),
        (1, "b", "B", 6),
    ]
    assert {(r["finish_reason"], r["stop_sequence"]) for r in records} == {("stop", "\nUser:")}
    assert records[0]["prompt_tokens"] == len("User: a\nBot:")
    assert records[0]["completion_tokens"] == len(" A\nUser:")


# The session's file


def test_the_session_is_written_after_each_turn(
    ascii_tokenizer: Tokenizer, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "session.json"
    session = open_session(ascii_tokenizer, session=path)

    def kept() -> list[str]:
        return [turn.message for turn in read_conversation(path).turns]

    session.run("a")
    assert kept() == ["a"]
    session.run("b", "/undo")
    assert kept() == ["a"]
    session.run("/reset")
    assert kept() == []


def test_a_session_that_cannot_be_written_is_told_and_the_chat_goes_on(
    ascii_tokenizer: Tokenizer, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Each time; what another process has written stays, and /save works elsewhere."""
    path, other = tmp_path / "session.json", tmp_path / "other.json"
    session = open_session(ascii_tokenizer, session=path)
    session.run("a")
    path.write_text("else")
    assert session.run("b", "c", f"/save {other}") == "B\nC\n"
    assert session.dialogue.failed
    assert path.read_text() == "else"
    assert len(read_conversation(other).turns) == 3
    err = capsys.readouterr().err
    assert err.count("was changed by another process and is not overwritten") == 2
    assert err.count("error") == 2


def test_ctrl_c_while_the_session_is_written_waits_for_its_end(
    ascii_tokenizer: Tokenizer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next turn would take its own file for another process's."""
    path = tmp_path / "session.json"
    session = open_session(ascii_tokenizer, session=path, on_terminal=True)
    replace = pathlib.Path.replace

    def replace_and_press(file: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        replaced = replace(file, target)
        signal.raise_signal(signal.SIGINT)
        return replaced

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", replace_and_press)
        session.run("a")
    assert session.run("b") == "B\n\n"
    assert not session.dialogue.failed
    assert len(read_conversation(path).turns) == 2


# How replies are shown


@pytest.mark.parametrize(
    ("on_terminal", "expected"),
    [(False, "[/b]\x1b[31m\r é\n"), (True, "[/b]␛[31m␍ é\n\n")],
    ids=["pipe", "terminal"],
)
def test_text_is_shown_as_it_comes(
    byte_tokenizer: Tokenizer, on_terminal: bool, expected: str
) -> None:
    """In a pipe untouched; on a terminal safe, and with an empty line before the next prompt."""
    written = " [/b]\x1b[31m\r é\n"
    options: dict[str, Any] = {"on_terminal": on_terminal, "vocab_size": 257}
    session = open_session(byte_tokenizer, lambda message: written, **options)
    assert session.run("a") == expected


def test_what_is_no_turn_has_no_record(ascii_tokenizer: Tokenizer) -> None:
    """Interrupted before anything was made of it; the conversation is as it was."""
    session = open_session(ascii_tokenizer, as_records=True)
    exchange = session.dialogue.chat.ask("a")
    assert list(session.dialogue.chat.answer(exchange, lambda: True)) == []
    session.dialogue.view.end(exchange)
    assert (exchange.finish, session.written(), session.turns) == (None, "", [])
