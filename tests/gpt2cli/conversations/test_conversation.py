"""Claims about what was said, the names of the two who speak, and their file on disk."""

import json
import os
import pathlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpt2cli.conversations.conversation import (
    Conversation,
    SessionFile,
    Turn,
    read_conversation,
    write_conversation,
)
from gpt2cli.errors import ConversationError, UsageError
from gpt2cli.generation.interfaces import FinishReason


def turn(message: str, *, first: int = 0) -> Turn:
    return Turn(message, message.upper(), FinishReason.STOP, 0, first)


@pytest.mark.parametrize("name", ["", " ", " Ann", "Ann ", "A\nB", "A\rB", "A\u2028B", "Ann\n"])
@pytest.mark.parametrize("whose", ["user_name", "bot_name"])
def test_a_name_is_some_text_on_one_line(whose: str, name: str) -> None:
    """Else the transcript would not have it where the stop looks for it."""
    names: dict[str, Any] = {whose: name}
    option = whose
    with pytest.raises(UsageError, match=f"^{option}: expected a name on one line"):
        Conversation(**names)


def test_the_two_have_different_names() -> None:
    """Else a reply would end where the bot goes on."""
    with pytest.raises(UsageError, match="bot_name: expected another name than 'Ann'"):
        Conversation(user_name="Ann", bot_name="Ann")


def test_what_the_model_sees_is_told_by_the_last_turn() -> None:
    """So a turn that is taken back gives back what it made go."""
    before = Conversation(system="s").add(turn("a")).add(turn("b"))
    after = before.add(turn("c", first=2))
    assert (before.first, after.first) == (0, 2)
    assert after.take_back() == before
    assert before.take_back().take_back() == Conversation(system="s")


posix = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and limits of POSIX")

TALK = Conversation(
    user_name="Ann",
    bot_name="Fuchs 🦊",
    system='A wood,\n"deep".',
    template="model",
    turns=(
        Turn("Hi\nthere", "Yes?\x1b[31m", FinishReason.STOP, 2**53 - 1),
        Turn("/help", "", FinishReason.INTERRUPTED, 0),
        Turn("Bye", "[/red] \ufffd", FinishReason.LENGTH, 7, first=2),
    ),
)


def write(path: pathlib.Path, conversation: Conversation = TALK) -> bytes:
    return write_conversation(path, conversation, model="m")


def test_what_was_written_is_read(tmp_path: pathlib.Path) -> None:
    """Every character, as UTF-8 that people can read."""
    path = tmp_path / "talk.json"
    assert write(path) == path.read_bytes()
    assert read_conversation(path) == TALK
    text = path.read_text(encoding="utf-8")
    assert "Fuchs 🦊" in text
    assert json.loads(text)["model"] == "m"


def spoilt(**changes: Any) -> str:
    """Return a saved conversation with other fields; those of `turn` are the last turn's."""
    turn = {"message": "a", "reply": "b", "finish_reason": "stop", "seed": 1, "first": 0}
    value = {"gpt2_chat": 1, "model": "m", "user_name": "A", "bot_name": "B", "system": ""}
    value["turns"] = [dict(turn), turn | changes.pop("turn", {})]
    return json.dumps({k: v for k, v in (value | changes).items() if v is not ...})


@pytest.mark.parametrize("form", ["transcript", "dialogpt"])
def test_in_another_form_replies_are_read(form: str) -> None:
    """Which was not known before it was kept; then it is none."""
    before = Conversation(turns=(Turn("a", "b", FinishReason.STOP, 0, reply_ids=(1,), drawn=1),))
    [turn] = before.in_form("transcript").in_form(form).turns
    assert turn.drawn == (form == "transcript")


def test_a_file_of_the_first_version_has_no_ids(tmp_path: pathlib.Path) -> None:
    """It is read all the same."""
    (tmp_path / "talk.json").write_text(spoilt())
    assert [turn.reply_ids for turn in read_conversation(tmp_path / "talk.json").turns] == [
        None
    ] * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "it is empty"),
        ("[]", 'there is no "gpt2_chat"'),
        (spoilt(gpt2_chat=3), "version 3, known are 1 and 2"),
        (spoilt(gpt2_chat="x" * 999), r'version "x+…, known are 1 and 2'),
        (spoilt(turns=...), "expected a list as turns, found null"),
        (spoilt(turns={"a": 1}), "expected a list as turns"),
        (spoilt(turns=["ab"]), "expected an object as turn"),
        (spoilt(user_name=...), "expected a text as user_name, found null"),
        (spoilt(user_name="B"), "bot_name: expected another name"),
        (spoilt(template="x"), 'there is no template "x"'),
        (spoilt(template=None), "expected a text as template, found null"),
        (spoilt(system="\ud800"), "it has half of a surrogate pair"),
        (spoilt(turn={"reply": ["x" * 99_999]}), "expected a text as reply"),
        (spoilt(turn={"seed": True}), "expected a whole number as seed, found true"),
        (spoilt(turn={"seed": 1.0}), "expected a whole number as seed"),
        (spoilt(turn={"seed": 10**300}), "seed: expected a whole number 0 to 2"),
        (spoilt(turn={"first": 2}), "expected a number 0 to 1 as first, found 2"),
        (spoilt(turn={"finish_reason": "x" * 999}), "there is no finish_reason"),
        (spoilt(turn={"ids": 7}), "expected a list as ids, found 7"),
        (spoilt(turn={"ids": [1, -1]}), "expected token ids as ids, found -1"),
        (spoilt(turn={"ids": [2**31]}), "expected token ids as ids, found 2147483648"),
        (spoilt(turn={"ids": [True]}), "expected token ids as ids, found true"),
        (spoilt(turn={"ids": [1], "drawn": 2}), "expected a number 0 to 1 as drawn, found 2"),
        ('{"gpt2_chat": 1, "turns": ' + "[" * 900 + "]" * 900 + "}", "as turn, found|deeply"),
    ],
)
def test_anything_else_is_an_error_that_says_why(
    tmp_path: pathlib.Path, data: str, reason: str
) -> None:
    """In a line of bearable length that names the file."""
    path = tmp_path / "talk.json"
    path.write_text(data)
    with pytest.raises(ConversationError, match=reason) as caught:
        read_conversation(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400


def test_the_turns_see_ever_later_ones(tmp_path: pathlib.Path) -> None:
    turns = json.loads(spoilt())["turns"]
    turns += [turns[0] | {"first": 1}, turns[0]]
    (tmp_path / "talk.json").write_text(spoilt(turns=turns))
    with pytest.raises(ConversationError, match="expected a number 1 to 3 as first, found 0"):
        read_conversation(tmp_path / "talk.json")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "there is no such file"),
        (".", "is a directory"),
        ("plain/x", "Not a directory"),
        ("a" * 300, "File name too long"),
        ("fifo", "is not a regular file"),
    ],
)
@posix
def test_what_cannot_be_read_is_an_error_that_names_it(
    tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    (tmp_path / "plain").touch()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConversationError, match=f" {reason}|{reason}$"):
        read_conversation(tmp_path / name)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond a size in the block."""
    import resource  # not there on Windows

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@posix
@pytest.mark.parametrize("turns", [1, 2000])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: pathlib.Path, turns: int) -> None:
    """Whether that is met in writing or in closing."""
    path = tmp_path / "talk.json"
    before = write(path)
    with full_disk(100), pytest.raises(ConversationError, match=r"cannot write .*File too large"):
        write(path, Conversation(turns=TALK.turns[:1] * turns))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing/talk", "plain/talk", "a" * 300])
def test_a_place_that_cannot_be_written_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(ConversationError, match="cannot write"):
        write(tmp_path / name)


class TestSession:
    """Claims about the file that holds a conversation as it goes on."""

    @pytest.fixture
    def path(self, tmp_path: pathlib.Path) -> pathlib.Path:
        return tmp_path / "session.json"

    @staticmethod
    def open(path: pathlib.Path) -> SessionFile:
        return SessionFile(path, model="m")

    def test_it_is_written_again_and_again(self, path: pathlib.Path) -> None:
        """By the same process, and by the next one that has read it."""
        session = self.open(path)
        assert session.read() is None
        session.write(Conversation())
        session.write(TALK)
        later = self.open(path)
        assert later.read() == TALK
        later.write(TALK.take_back())
        assert read_conversation(path) == TALK.take_back()

    @pytest.mark.parametrize("foreign", [b"", b"else", None])
    def test_what_somebody_else_has_done_to_it_stays(
        self, path: pathlib.Path, foreign: bytes | None
    ) -> None:
        """Written, emptied or removed; at every later turn too."""
        session = self.open(path)
        session.write(TALK)
        path.unlink()
        if foreign is not None:
            path.write_bytes(foreign)
        for _ in range(2):
            with pytest.raises(ConversationError, match=r"was changed .* /save FILE keeps"):
                session.write(TALK)
        assert (path.read_bytes() if path.exists() else None) == foreign

    def test_the_second_to_begin_it_loses(self, path: pathlib.Path) -> None:
        """Neither had found a file."""
        first, second = self.open(path), self.open(path)
        assert (first.read(), second.read()) == (None, None)
        first.write(TALK)
        with pytest.raises(ConversationError, match="was changed by another process"):
            second.write(Conversation())
        assert read_conversation(path) == TALK

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names by /proc")
    def test_each_turn_is_flushed_and_its_name_now_and_then(
        self, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So what a power cut leaves is whole; that of a turn before, if it comes at once."""
        flushed: list[str] = []

        def sync(descriptor: int) -> None:
            name = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink().name
            flushed.append("name" if name == path.parent.name else "file")

        monkeypatch.setattr(os, "fsync", sync)
        times = iter([0.0, 0.0, 1.0, 4.9, 5.0, 6.0])
        session = SessionFile(path, model="m", clock=lambda: next(times))
        for _ in range(5):
            session.write(TALK)
        assert flushed == ["file", "name", "file", "file", "file", "name", "file"]

    def test_a_file_that_could_not_be_read_is_never_written(self, path: pathlib.Path) -> None:
        """Whatever is done after the error that tells it."""
        path.write_text("precious")
        session = self.open(path)
        with pytest.raises(ConversationError, match="is not a saved conversation"):
            session.read()
        with pytest.raises(ConversationError, match="is not overwritten"):
            session.write(TALK)
        assert path.read_text() == "precious"

    @posix
    def test_a_link_stays_one_and_modes_are_kept(
        self, path: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        path.symlink_to("real.json")
        session = self.open(path)
        assert session.read() is None
        session.write(Conversation())
        (tmp_path / "real.json").chmod(0o600)
        session.write(TALK)
        assert path.is_symlink()
        assert (tmp_path / "real.json").stat().st_mode & 0o777 == 0o600
        assert read_conversation(tmp_path / "real.json") == TALK
