"""What a model sees of a conversation: which old turns are dropped, and which ids it draws on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.templates import Prompt, Template
from gpt2cli.errors import PromptError
from gpt2cli.generation.sequence import slide
from gpt2cli.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens the model can see, and how many of them are to be free for the reply."""

    n_positions: int
    free: int
    slides: bool = False  # whether a prompt that is too long keeps its end


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
    prompt = template.prompt(seen, message, first=first)
    most = room.n_positions - room.free
    if len(prompt.ids) > most:
        sizes = [template.measure(turn) for turn in seen]
        for_turns = max(0, most - (len(prompt.ids) - sum(sizes)))
        excess = sum(sizes) - for_turns // 2
        freed = enumerate(accumulate(sizes), start=1)
        going = next((number for number, size in freed if size >= excess), len(seen))
        asked = template.ask(message, first=False)
        if seen and room.slides and len(asked) <= (room.n_positions - len(template.begin())) // 2:
            going = min(going, len(seen) - 1)
        first += going
        prompt = template.prompt(seen[going:], message, first=first)
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
