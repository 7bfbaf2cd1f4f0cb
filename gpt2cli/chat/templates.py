"""The forms in which a model sees a conversation: a transcript, or DialoGPT's."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from gpt2cli.chat.conversation import Conversation
from gpt2cli.errors import UsageError
from gpt2cli.tokenizer import Tokenizer


class Template(Protocol):
    """Turns the parts of a conversation into ids, each by itself: what was said keeps its ids.

    `allow_special` is for what the user wrote; a reply's text never becomes a special token.
    """

    @property
    def stop(self) -> tuple[str, ...]:
        """The texts that end a reply, beside EOS."""
        ...

    def begin(self) -> list[int]:
        """Return the ids that stand before the first turn."""
        ...

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the ids of a message, up to where its reply begins."""
        ...

    def answer(self, reply: str) -> list[int]:
        """Return the ids of a reply that is known by its text only."""
        ...

    def close(self) -> list[int]:
        """Return the ids that end a reply before the next message."""
        ...


class Transcript:
    """Lines that begin with a name, for models that know nothing of conversations.

    The reply ends where the model begins the user's next line.
    """

    def __init__(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> None:
        self._conversation = conversation
        self._tokenizer = tokenizer
        self._allow_special = allow_special

    @property
    def stop(self) -> tuple[str, ...]:
        """The beginning of the user's line."""
        return (f"\n{self._conversation.user_name}:",)

    def begin(self) -> list[int]:
        """Return the system text as a paragraph of its own."""
        system = self._conversation.system
        ids = self._encode(f"{system}\n\n", begins=True) if system else []
        return [*self._tokenizer.start_ids, *ids]

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the user's line and the name of the bot: its text begins with a space."""
        user, bot = self._conversation.user_name, self._conversation.bot_name
        begins = first and not self._conversation.system
        return self._encode(f"{'' if first else chr(10)}{user}: {message}\n{bot}:", begins=begins)

    def answer(self, reply: str) -> list[int]:
        """Return the rest of the bot's line."""
        return self._tokenizer.encode_text(f" {reply}") if reply else []

    def close(self) -> list[int]:
        """Return nothing: the next line begins with the newline."""
        return []

    def _encode(self, text: str, *, begins: bool) -> list[int]:
        special = self._allow_special
        return self._tokenizer.encode_text(text, allow_special=special, begins=begins)


class DialoGPT:
    """Every message and every reply ends with EOS (Zhang et al. 2019, arXiv:1911.00536)."""

    stop: tuple[str, ...] = ()

    def __init__(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> None:
        if not tokenizer.eos_token_ids:
            expected = "a model with an EOS token for dialogpt"
            raise UsageError(option="template", expected=expected)
        self._system = conversation.system
        self._tokenizer = tokenizer
        self._allow_special = allow_special
        self._end = [min(tokenizer.eos_token_ids)]

    def begin(self) -> list[int]:
        """Return the system text as if somebody had said it."""
        ids = self._say(self._system) if self._system else []
        return [*self._tokenizer.start_ids, *ids]

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the message."""
        return self._say(message)

    def answer(self, reply: str) -> list[int]:
        """Return the reply."""
        return self._tokenizer.encode_text(reply)

    def close(self) -> list[int]:
        """Return EOS, which is drawn but no part of the reply."""
        return self._end

    def _say(self, text: str) -> list[int]:
        special = self._allow_special
        return self._tokenizer.encode_text(text, allow_special=special, begins=True) + self._end


TEMPLATES: Final[Mapping[str, type[Transcript] | type[DialoGPT]]] = {
    "transcript": Transcript,
    "dialogpt": DialoGPT,
}


def choose_template(model_config: Mapping[str, Any]) -> str:
    """Return the name of the template that a checkpoint's config.json asks for.

    Published DialoGPT configurations have `task_specific_params.conversational`; GPT-2's have not.
    """
    params = model_config.get("task_specific_params")
    return "dialogpt" if isinstance(params, dict) and "conversational" in params else "transcript"
