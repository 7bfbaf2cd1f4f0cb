"""A conversation: its turns, the names of the two who speak, and its form on disk."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from export.small_files import LARGE, MissingFileError, ReadError, parse_json, read_bytes
from export.whole import replacing
from gpt2cli.config import SeedConfig
from gpt2cli.conversations.config import FORMS
from gpt2cli.errors import ConversationError, UsageError, shorten
from gpt2cli.generation.interfaces import FinishReason

_VERSION: Final = 2
_KNOWN: Final = (1, 2)  # files of version 1 have no ids
# A session's name is flushed to disk no more often: a turn may take less than 0.1 s.
_FLUSH_SECONDS: Final = 5.0
_LONGEST_REASON: Final = 200
_LARGEST_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One message and its reply, without the white space around them."""

    message: str
    reply: str
    finish_reason: FinishReason
    seed: int
    first: int = 0  # the number of the oldest turn that the model saw before it
    # What the next prompt has of it; None where only its text is known.
    reply_ids: Sequence[int] | None = None
    drawn: int = 0  # how many of these, from the first, were drawn: the others are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns in order, and what stands around them.

    Raises:
        UsageError: if a name cannot stand before a line of the transcript.
    """

    user_name: str = "User"
    bot_name: str = "Bot"
    system: str = ""
    template: str = ""  # the form in which the model sees it; empty: not known
    turns: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        for option, name in (("user_name", self.user_name), ("bot_name", self.bot_name)):
            if name != name.strip() or len(name.splitlines()) != 1:
                raise UsageError(option=option, expected="a name on one line", found=repr(name))
        if self.user_name == self.bot_name:
            fault = f"expected another name than {self.user_name!r}"
            raise UsageError(fault, option="bot_name")

    @property
    def first(self) -> int:
        """The number of the oldest turn that the model sees: one that went never comes back."""
        return self.turns[-1].first if self.turns else 0

    def add(self, turn: Turn) -> "Conversation":
        """Return the conversation with one more turn."""
        return replace(self, turns=(*self.turns, turn))

    def take_back(self) -> "Conversation":
        """Return the conversation as it was before its last turn."""
        return replace(self, turns=self.turns[:-1])

    def under(self, system: str) -> "Conversation":
        """Return the conversation with this system text."""
        return self if system == self.system else replace(self._read_anew(), system=system)

    def in_form(self, template: str) -> "Conversation":
        """Return the conversation in this form; one of earlier versions does not tell its own."""
        same = self.template in ("", template)
        return replace(self if same else self._read_anew(), template=template)

    def _read_anew(self) -> "Conversation":
        """Return it with replies that are read: they were drawn after what stands there no more."""
        return replace(self, turns=tuple(replace(turn, drawn=0) for turn in self.turns))

    def forget(self) -> "Conversation":
        """Return the conversation without any turn."""
        return replace(self, turns=())


def write_conversation(
    path: Path, conversation: Conversation, *, model: str, flush_name: bool = True
) -> bytes:
    """Write a conversation and return what the file holds; `model` only says who spoke.

    Without `flush_name` a power cut may bring back the file of before.

    Raises:
        ConversationError: if it cannot be written.
    """
    about = {
        "gpt2_chat": _VERSION,
        "model": model,
        "user_name": conversation.user_name,
        "bot_name": conversation.bot_name,
        "system": conversation.system,
        "template": conversation.template,
    }
    fields = [f'"{name}": {_as_json(value)}' for name, value in about.items()]
    turns = ",\n  ".join(_as_json(_describe_turn(turn)) for turn in conversation.turns)
    lines = ",\n ".join([*fields, f'"turns": [\n  {turns}\n ]'])  # a line for each turn
    data = f"{{\n {lines}\n}}\n".encode("utf-8", "replace")
    try:
        with replacing(path, flush_name=flush_name) as file:
            file.write(data)
    except OSError as error:
        raise ConversationError(f"cannot write {path}: {error.strerror}") from error
    return data


def read_conversation(path: Path) -> Conversation:
    """Read what `write_conversation` wrote.

    Raises:
        ConversationError: if it is not such a file.
    """
    data = _read(path)
    if data is None:
        raise ConversationError(f"cannot read {path}: there is no such file")
    return _parse(path, data)


def tell_replies_differ(path: Path) -> str:
    """Return the line for a file without the tokens of its replies: of an older version, say."""
    return (
        f"{path} has replies without this model's tokens: they are read as text, and the next "
        "replies may differ from those of an unbroken chat"
    )


class SessionFile:
    """The file that holds a running conversation; it never overwrites another process's changes."""

    def __init__(
        self, path: Path, *, model: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self._model = model
        self._clock = clock
        self._flush_at = clock()
        self._known: bytes | None = None  # its content when it was last read or written

    def read(self) -> Conversation | None:
        """Return the conversation; None if there is no file yet.

        Raises:
            ConversationError: if there is another file.
        """
        data = _read(self.path)
        conversation = None if data is None else _parse(self.path, data)
        self._known = data
        return conversation

    def write(self, conversation: Conversation) -> None:
        """Write the conversation.

        Raises:
            ConversationError: if it cannot be written, or somebody has changed the file meanwhile.
        """
        if _read(self.path) != self._known:
            raise ConversationError(
                f"{self.path} was changed by another process and is not overwritten; "
                "/save FILE keeps this conversation elsewhere"
            )
        now = self._clock()
        due = now >= self._flush_at
        self._known = write_conversation(self.path, conversation, model=self._model, flush_name=due)
        if due:
            self._flush_at = now + _FLUSH_SECONDS


def _read(path: Path) -> bytes | None:
    """Return what a file holds; None if there is none. A pipe or a device may never end."""
    try:
        return read_bytes(path, most_bytes=LARGE)
    except MissingFileError:
        return None
    except ReadError as error:
        raise ConversationError(f"{path} {error}") from error


def _describe_turn(turn: Turn) -> Mapping[str, Any]:
    return {
        "message": turn.message,
        "reply": turn.reply,
        "finish_reason": turn.finish_reason.value,
        "seed": turn.seed,
        "first": turn.first,
        **_describe_ids(turn),
    }


def _describe_ids(turn: Turn) -> Mapping[str, Any]:
    """Return the reply's ids if they are known, and how many were drawn where not all were."""
    if turn.reply_ids is None:
        return {}
    cut = turn.drawn < len(turn.reply_ids)
    return {"ids": list(turn.reply_ids), **({"drawn": turn.drawn} if cut else {})}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parse(path: Path, data: bytes) -> Conversation:
    try:
        return _parse_conversation(parse_json(data))
    except ReadError as error:
        reason = f"it {error.reason}"
    except (ValueError, UsageError) as error:
        reason = str(error)[:_LONGEST_REASON]
    raise ConversationError(
        f"{path} is not a saved conversation ({reason}); expected what /save or --session wrote"
    )


def _parse_conversation(value: Any) -> Conversation:
    if not isinstance(value, dict) or "gpt2_chat" not in value:
        raise ValueError('there is no "gpt2_chat"')
    if value["gpt2_chat"] not in _KNOWN:
        raise ValueError(f"version {_show(value['gpt2_chat'])}, known are 1 and 2")
    turns: list[Turn] = []
    for turn in _get(value, "turns", list, "a list"):
        turns.append(_parse_turn(turn, turns))
    about = {name: _text(value, name) for name in ("user_name", "bot_name", "system")}
    about["template"] = _text(value, "template") if "template" in value else ""
    if about["template"] not in ("", *FORMS):
        raise ValueError(f"there is no template {_show(about['template'])}")
    return Conversation(**about, turns=tuple(turns))


def _parse_turn(value: Any, before: list[Turn]) -> Turn:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object as turn, found {_show(value)}")
    seed = _get(value, "seed", int, "a whole number")
    SeedConfig(seed=seed)
    first = _get(value, "first", int, "a whole number")
    least = before[-1].first if before else 0
    if not least <= first <= len(before):
        raise ValueError(f"expected a number {least} to {len(before)} as first, found {first}")
    reason = _text(value, "finish_reason")
    if reason not in {known.value for known in FinishReason}:
        raise ValueError(f"there is no finish_reason {_show(reason)}")
    message, reply = _text(value, "message"), _text(value, "reply")
    return Turn(message, reply, FinishReason(reason), seed, first, *_parse_ids(value))


def _parse_ids(value: Mapping[str, Any]) -> tuple[tuple[int, ...] | None, int]:
    """Return the ids of a reply and how many were drawn; None and 0 if the file has only text."""
    if "ids" not in value:
        return None, 0
    ids = _get(value, "ids", list, "a list")
    wrong = [i for i in ids if type(i) is not int or not 0 <= i <= _LARGEST_ID]
    if wrong:
        raise ValueError(f"expected token ids as ids, found {_show(wrong[0])}")
    drawn = _get(value, "drawn", int, "a whole number") if "drawn" in value else len(ids)
    if not 0 <= drawn <= len(ids):
        raise ValueError(f"expected a number 0 to {len(ids)} as drawn, found {_show(drawn)}")
    return tuple(ids), drawn


def _text(value: Mapping[str, Any], name: str) -> str:
    text: str = _get(value, name, str, "a text")
    return text


def _get(value: Mapping[str, Any], name: str, kind: type[Any], called: str) -> Any:
    """Return a field of exactly this type: a flag is no whole number."""
    found = value.get(name)
    if type(found) is not kind:
        raise ValueError(f"expected {called} as {name}, found {_show(found)}")
    return found


def _show(found: Any) -> str:
    return shorten(_as_json(found))
