"""Conversations on disk: one JSON object, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.errors import ConversationError, OutputError, UsageError
from gpt2cli.generation import FinishReason, check_seed
from gpt2cli.whole_file import replacing

_VERSION: Final = 1


def write_conversation(path: Path, conversation: Conversation, *, model: str) -> bytes:
    """Write a conversation and return what the file holds; `model` only says who spoke.

    Raises:
        OutputError: if it cannot be written.
    """
    value = {
        "gpt2_chat": _VERSION,
        "model": model,
        "user_name": conversation.user_name,
        "bot_name": conversation.bot_name,
        "system": conversation.system,
        "turns": [
            {
                "message": turn.message,
                "reply": turn.reply,
                "finish_reason": turn.finish_reason.value,
                "seed": turn.seed,
            }
            for turn in conversation.turns
        ],
    }
    data = (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
    with replacing(path) as file:
        file.write(data)
    return data


def read_conversation(path: Path) -> Conversation:
    """Read what `write_conversation` wrote.

    Raises:
        ConversationError: if it is not such a file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConversationError(f"cannot read {path}: {error.strerror}") from error
    try:
        return _parse(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError, UsageError) as error:
        raise ConversationError(
            f"{path} is no saved conversation ({error}); expected what /save or --session wrote"
        ) from error


class SessionFile:
    """The file that holds a conversation as it goes on; never written over another's changes."""

    def __init__(self, path: Path, *, model: str) -> None:
        self.path = path
        self._model = model
        self._known: bytes | None = None  # what the file held when it was last read or written

    def read(self) -> Conversation | None:
        """Return the conversation; None if there is no file yet.

        Raises:
            ConversationError: if there is another file.
        """
        if not self.path.exists():
            return None
        conversation = read_conversation(self.path)
        self._known = self._find()
        return conversation

    def write(self, conversation: Conversation) -> None:
        """Write the conversation.

        Raises:
            OutputError: if it cannot be written, or somebody else has written the file meanwhile.
        """
        if self._find() != self._known:
            raise OutputError(
                f"{self.path} was changed by another process and is left alone; "
                "/save FILE keeps this conversation elsewhere"
            )
        self._known = write_conversation(self.path, conversation, model=self._model)

    def _find(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OutputError(f"cannot read {self.path}: {error.strerror}") from error


def _parse(value: Any) -> Conversation:
    if not isinstance(value, dict) or "gpt2_chat" not in value:
        raise ValueError('there is no "gpt2_chat"')
    if value["gpt2_chat"] != _VERSION:
        raise ValueError(f"version {value['gpt2_chat']!r}, known is {_VERSION}")
    return Conversation(
        user_name=_text(value, "user_name"),
        bot_name=_text(value, "bot_name"),
        system=_text(value, "system"),
        turns=tuple(_parse_turn(turn) for turn in value["turns"]),
    )


def _parse_turn(value: Mapping[str, Any]) -> Turn:
    seed = value["seed"]
    if type(seed) is not int:
        raise ValueError(f"expected a whole number as seed, found {seed!r}")
    check_seed(seed)
    reason = FinishReason(value["finish_reason"])
    return Turn(_text(value, "message"), _text(value, "reply"), reason, seed)


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value[name]
    if not isinstance(text, str):
        raise ValueError(f"expected a text as {name}, found {text!r}")
    text.encode()  # a lone surrogate is no text
    return text
