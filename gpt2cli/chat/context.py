"""What a model sees of a conversation: its form, and which old turns are dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation.sequence import slide
from gpt2cli.tokenizer import Tokenizer


class Template:
    """Turns each part of a conversation into ids by itself, so that they never change later."""

    stop: tuple[str, ...] = ()  # the texts that end a reply, beside EOS

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


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens the model can see, and how many of them are to be free for the reply."""

    n_positions: int
    free: int
    slides: bool = False  # whether a prompt that is too long keeps its end


@dataclass(slots=True)
class Prompt:
    """What the model is to see: ids, and for each whether it is stepped, as drawn ones are."""

    ids: list[int] = field(default_factory=list)
    stepped: list[bool] = field(default_factory=list)

    def add(self, ids: Sequence[int], *, drawn: int = 0) -> None:
        """Append ids of which the first `drawn` ones are stepped."""
        self.ids += ids
        self.stepped += [place < drawn for place in range(len(ids))]


def settle_replies(conversation: Conversation, template: Template) -> tuple[Conversation, int]:
    """Return the conversation with the ids of all replies, and how many were known by text only.

    These are encoded now, and are read. Ids that do not spell the reply are another model's.
    """
    settled = tuple(
        turn
        if _spells(turn, template.tokenizer)
        else replace(turn, reply_ids=tuple(template.answer(turn.reply)), drawn=0)
        for turn in conversation.turns
    )
    pairs = zip(settled, conversation.turns, strict=True)
    return replace(conversation, turns=settled), sum(new is not old for new, old in pairs)


def _spells(turn: Turn, tokenizer: Tokenizer) -> bool:
    """Tell whether the ids of a reply are known, and spell it in this vocabulary."""
    if turn.reply_ids is None or not all(map(tokenizer.spell, turn.reply_ids)):
        return False
    spelt = b"".join(map(tokenizer.token_bytes, turn.reply_ids))
    return spelt.decode("utf-8", "replace").strip() == turn.reply


def build_history(turns: Sequence[Turn], template: Template, *, first: int) -> Prompt:
    """Return everything that the model sees before the next message; `first` is its first turn.

    A reply is stepped where it stands as it was drawn; one that was drawn after turns that have
    gone since is read with all others.
    """
    prompt = Prompt()
    prompt.add(template.begin())
    for number, turn in enumerate(turns):
        prompt.add(template.ask(turn.message, first=number == 0))
        prompt.add(_answer(turn, template), drawn=turn.drawn if turn.first == first else 0)
        prompt.add(template.close())
    return prompt


def check_system(template: Template, room: Room) -> None:
    """Refuse a system text, or names, that leave no room for a message, by a PromptError."""
    system, turn = len(template.begin()), len(template.ask("", first=True))
    if system + turn > room.n_positions:
        longer = "the system text" if system >= turn else "the names"
        raise PromptError(
            f"the system text has {system} tokens and an empty turn with the names {turn}, which "
            f"leaves no room for a message in the model's {room.n_positions}: shorten {longer}"
        )


def fit(
    conversation: Conversation, message: str, template: Template, room: Room
) -> tuple[int, Prompt]:
    """Return the prompt for a message, and the number of the oldest turn in it.

    If it leaves too little room for the reply, the oldest turns go until those that stay take half
    of the room for turns: what is left must be prefilled again, which should not happen at every
    turn. The message stays, whether it fits or not. Where ids slide the last turn stays too, if the
    model then still sees all of the message.

    Raises:
        PromptError: if the system text and the names are too long.
    """
    check_system(template, room)
    first = conversation.first
    seen = conversation.turns[first:]
    prompt = _build_prompt(seen, message, template, first=first)
    most = room.n_positions - room.free
    if len(prompt.ids) > most:
        sizes = [_measure_turn(turn, template) for turn in seen]
        for_turns = max(0, most - (len(prompt.ids) - sum(sizes)))
        excess = sum(sizes) - for_turns // 2
        freed = enumerate(accumulate(sizes), start=1)
        going = next((number for number, size in freed if size >= excess), len(seen))
        asked = template.ask(message, first=False)
        if seen and room.slides and len(asked) <= (room.n_positions - len(template.begin())) // 2:
            going = min(going, len(seen) - 1)
        first += going
        prompt = _build_prompt(seen[going:], message, template, first=first)
    return first, prompt


def see(conversation: Conversation, template: Template, room: Room) -> list[int]:
    """Return the ids that the model sees before the next message, if that is a short one."""
    system = template.begin()
    try:
        first, prompt = fit(conversation, "", template, room)
    except PromptError:  # nothing fits until the system text is shorter
        return system[: room.n_positions]
    asked = len(template.ask("", first=first == len(conversation.turns)))
    ids = cut(prompt.ids, template, room)
    return ids[: max(len(system), len(ids) - asked)]


def cut(ids: list[int], template: Template, room: Room) -> list[int]:
    """Return what the model sees of a prompt: all of it, or the system text and the end."""
    if not room.slides or len(ids) < room.n_positions:
        return ids
    return slide(ids, limit=room.n_positions, kept=len(template.begin()))


def _measure_turn(turn: Turn, template: Template) -> int:
    asked = template.ask(turn.message, first=False)
    return len(asked) + len(_answer(turn, template)) + len(template.close())


def _answer(turn: Turn, template: Template) -> Sequence[int]:
    return template.answer(turn.reply) if turn.reply_ids is None else turn.reply_ids


def _build_prompt(seen: Sequence[Turn], message: str, template: Template, *, first: int) -> Prompt:
    prompt = build_history(seen, template, first=first)
    prompt.add(template.ask(message, first=not seen))
    return prompt


def ids_that_spell(
    text: str, drawn: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], int]:
    """Return ids of `text`, which begins what was drawn, and how many of them are drawn ones.

    These are as many as spell it. Where the text ends within a token, or has U+FFFD for what is no
    UTF-8, its rest is encoded.
    """
    wanted = text.encode()
    length = kept = kept_length = 0  # kept: up to the last whole character
    for count, token_id in enumerate(drawn, start=1):
        piece = tokenizer.token_bytes(token_id)
        if length == len(wanted) or not wanted.startswith(piece, length):
            break
        length += len(piece)
        if length == len(wanted) or not _is_continuation(wanted[length]):
            kept, kept_length = count, length
    rest = wanted[kept_length:].decode()
    return (*drawn[:kept], *tokenizer.encode_text(rest)), kept


def _is_continuation(byte: int) -> bool:
    """Tell whether a byte continues a character of UTF-8."""
    return byte & 0xC0 == 0x80
