"""What the model sees of a conversation: ids, and how many old turns must go for them to fit."""

from collections.abc import Sequence
from itertools import accumulate

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.chat.templates import Template
from gpt2cli.tokenizer import Tokenizer


def build_history(turns: Sequence[Turn], template: Template) -> list[int]:
    """Return the ids of all that the model sees before the next message."""
    ids = template.begin()
    for number, turn in enumerate(turns):
        ids += _build_turn(turn, template, first=number == 0)
    return ids


def fit(
    conversation: Conversation, message: str, template: Template, *, n_positions: int, room: int
) -> tuple[int, list[int]]:
    """Return the prompt for a message, and the number of the oldest turn in it.

    If it leaves less than `room` tokens for the reply, the oldest turns go until those that stay
    take half of the place that there is for turns: what is left must be prefilled again, which
    should not happen at every turn. The message stays, whether it fits or not.
    """
    first = conversation.first
    seen = conversation.turns[first:]
    ids = _build_prompt(seen, message, template)
    if len(ids) > n_positions - room:
        sizes = [len(_build_turn(turn, template, first=False)) for turn in seen]
        place = max(0, n_positions - room - (len(ids) - sum(sizes)))
        excess = sum(sizes) - place // 2
        freed = enumerate(accumulate(sizes), start=1)
        going = next((number for number, size in freed if size >= excess), len(seen))
        first += going
        ids = _build_prompt(seen[going:], message, template)
    return first, ids


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
