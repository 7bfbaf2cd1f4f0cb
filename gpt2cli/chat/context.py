"""What the model sees of a conversation: ids, and how many old turns must go for them to fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.chat.templates import Template
from gpt2cli.errors import PromptError
from gpt2cli.generation.sequence import slide
from gpt2cli.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens the model can see, and how many of them are to be free for the reply."""

    n_positions: int
    free: int
    slides: bool = False  # whether a prompt that is too long keeps its end


def build_history(turns: Sequence[Turn], template: Template) -> list[int]:
    """Return the ids of all that the model sees before the next message."""
    ids = template.begin()
    for number, turn in enumerate(turns):
        ids += _build_turn(turn, template, first=number == 0)
    return ids


def fit(
    conversation: Conversation, message: str, template: Template, room: Room
) -> tuple[int, list[int]]:
    """Return the prompt for a message, and the number of the oldest turn in it.

    If it leaves too little room for the reply, the oldest turns go until those that stay take half
    of the place that there is for turns: what is left must be prefilled again, which should not
    happen at every turn. The message stays, whether it fits or not. Where ids slide the last turn
    stays too, if the model then still sees all of the message.

    Raises:
        PromptError: if the system text and the names are too long.
    """
    _check_system(template, room)
    first = conversation.first
    seen = conversation.turns[first:]
    ids = _build_prompt(seen, message, template)
    most = room.n_positions - room.free
    if len(ids) > most:
        sizes = [len(_build_turn(turn, template, first=False)) for turn in seen]
        place = max(0, most - (len(ids) - sum(sizes)))
        excess = sum(sizes) - place // 2
        freed = enumerate(accumulate(sizes), start=1)
        going = next((number for number, size in freed if size >= excess), len(seen))
        asked = template.ask(message, first=False)
        if seen and room.slides and len(asked) <= (room.n_positions - len(template.begin())) // 2:
            going = min(going, len(seen) - 1)
        first += going
        ids = _build_prompt(seen[going:], message, template)
    return first, ids


def see(conversation: Conversation, template: Template, room: Room) -> list[int]:
    """Return the ids that the model sees before the next message, if that is a short one."""
    system = template.begin()
    try:
        first, ids = fit(conversation, "", template, room)
    except PromptError:  # it will see nothing before the system text is a shorter one
        return system[: room.n_positions]
    asked = len(template.ask("", first=first == len(conversation.turns)))
    ids = cut(ids, template, room)
    return ids[: max(len(system), len(ids) - asked)]


def cut(ids: list[int], template: Template, room: Room) -> list[int]:
    """Return what the model sees of a prompt: all of it, or the system text and the end."""
    if not room.slides or len(ids) < room.n_positions:
        return ids
    return slide(ids, limit=room.n_positions, kept=len(template.begin()))


def _check_system(template: Template, room: Room) -> None:
    system, turn = len(template.begin()), len(template.ask("", first=True))
    if system + turn > room.n_positions:
        longer = "the system text" if system >= turn else "the names"
        raise PromptError(
            f"the system text has {system} tokens and an empty turn with the names {turn}, which "
            f"leaves no room for a message in the model's {room.n_positions}: shorten {longer}"
        )


def _build_turn(turn: Turn, template: Template, *, first: bool) -> list[int]:
    reply = template.answer(turn.reply) if turn.reply_ids is None else turn.reply_ids
    return [*template.ask(turn.message, first=first), *reply, *template.close()]


def _build_prompt(seen: Sequence[Turn], message: str, template: Template) -> list[int]:
    return build_history(seen, template) + template.ask(message, first=not seen)


def ids_that_spell(text: str, drawn: Sequence[int], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return ids of `text`, which begins what was drawn: the drawn ones as far as they spell it.

    Where the text ends within a token, or has U+FFFD for what is no UTF-8, its rest is encoded.
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
    return (*drawn[:kept], *tokenizer.encode_text(rest))


def _is_continuation(byte: int) -> bool:
    """Tell whether a byte goes on with a character of UTF-8."""
    return byte & 0xC0 == 0x80
