"""The forms in which a model sees a conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.errors import UsageError
from gpt2cli.tokenizer import Tokenizer


@dataclass(slots=True)
class Prompt:
    """What the model is to see: ids, and for each whether it is stepped, as drawn ones are."""

    ids: list[int] = field(default_factory=list)
    stepped: list[bool] = field(default_factory=list)

    def add(self, ids: Sequence[int], *, drawn: int = 0) -> None:
        """Append ids of which the first `drawn` ones are stepped."""
        self.ids += ids
        self.stepped += [place < drawn for place in range(len(ids))]


class Template:
    """Turns each part of a conversation into ids by itself, so that they never change later."""

    stop: tuple[str, ...] = ()  # the texts that end a reply, beside EOS
    stop_ids: tuple[int, ...] = ()  # and the tokens

    def __init__(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> None:
        """`allow_special` is for what the user wrote; a reply never becomes a special token."""
        self.conversation = conversation
        self.tokenizer = tokenizer
        self._allow_special = allow_special

    def begin(self) -> list[int]:
        """Return the ids that stand before the first turn."""
        raise NotImplementedError

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the ids of a message, up to where its reply begins."""
        raise NotImplementedError

    def answer(self, reply: str) -> list[int]:
        """Return the ids of a reply that is known by its text only."""
        raise NotImplementedError

    def close(self) -> list[int]:
        """Return the ids that end a reply before the next message."""
        return []

    def history(self, turns: Sequence[Turn], *, first: int) -> Prompt:
        """Return everything that the model sees before the next message.

        `first` is the number of the first turn. A reply is stepped where it stands as it was drawn;
        one that was drawn after turns that have gone since is read with all others.
        """
        prompt = Prompt()
        prompt.add(self.begin())
        for number, turn in enumerate(turns):
            prompt.add(self.ask(turn.message, first=number == 0))
            prompt.add(self.reply_ids(turn), drawn=turn.drawn if turn.first == first else 0)
            prompt.add(self.close())
        return prompt

    def prompt(self, turns: Sequence[Turn], message: str, *, first: int) -> Prompt:
        """Return the history and a message, up to where its reply begins."""
        prompt = self.history(turns, first=first)
        prompt.add(self.ask(message, first=not turns))
        return prompt

    def measure(self, turn: Turn) -> int:
        """Return how many ids a turn has that is not the first."""
        return len([*self.ask(turn.message, first=False), *self.reply_ids(turn), *self.close()])

    def reply_ids(self, turn: Turn) -> Sequence[int]:
        """Return the ids of a reply: the known ones, or else those of its text."""
        return self.answer(turn.reply) if turn.reply_ids is None else turn.reply_ids

    def encode(self, text: str, *, begins: bool) -> list[int]:
        """Return the ids of what the user wrote."""
        special = self._allow_special
        return self.tokenizer.encode_text(text, allow_special=special, begins=begins)


class Transcript(Template):
    """Lines that begin with a name, for models that know nothing of conversations.

    The reply ends where the model begins the user's next line.
    """

    def __init__(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> None:
        super().__init__(conversation, tokenizer, allow_special=allow_special)
        self.stop = (f"\n{conversation.user_name}:",)

    def begin(self) -> list[int]:
        """Return the system text as a paragraph of its own."""
        system = self.conversation.system
        ids = self.encode(f"{system}\n\n", begins=True) if system else []
        return [*self.tokenizer.start_ids, *ids]

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the user's line and the name of the bot: its text begins with a space."""
        user, bot = self.conversation.user_name, self.conversation.bot_name
        begins = first and not self.conversation.system
        return self.encode(f"{'' if first else chr(10)}{user}: {message}\n{bot}:", begins=begins)

    def answer(self, reply: str) -> list[int]:
        """Return the rest of the bot's line."""
        return self.tokenizer.encode_text(f" {reply}") if reply else []


class DialoGPT(Template):
    """Every message and every reply ends with EOS (Zhang et al. 2019, arXiv:1911.00536)."""

    def __init__(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> None:
        super().__init__(conversation, tokenizer, allow_special=allow_special)
        if not tokenizer.eos_token_ids:
            expected = "a model with an EOS token for dialogpt"
            raise UsageError(option="template", expected=expected)
        self._end = [min(tokenizer.eos_token_ids)]

    def begin(self) -> list[int]:
        """Return the system text as if somebody had said it."""
        system = self.conversation.system
        return [*self.tokenizer.start_ids, *(self.ask(system, first=True) if system else [])]

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the message."""
        return self.encode(message, begins=True) + self._end

    def answer(self, reply: str) -> list[int]:
        """Return the reply."""
        return self.tokenizer.encode_text(reply)

    def close(self) -> list[int]:
        """Return EOS, which is drawn but no part of the reply."""
        return self._end


TEMPLATES: Final[Mapping[str, type[Template]]] = {"transcript": Transcript, "dialogpt": DialoGPT}


def choose_template(model_config: Mapping[str, Any]) -> str:
    """Return the name of the template that a checkpoint's config.json asks for.

    Published DialoGPT configurations have `task_specific_params.conversational`; GPT-2's have not.
    """
    params = model_config.get("task_specific_params")
    return "dialogpt" if isinstance(params, dict) and "conversational" in params else "transcript"
