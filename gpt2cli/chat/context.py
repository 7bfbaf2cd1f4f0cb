"""What the model sees of a conversation: ids, and how many old turns must go for them to fit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.chat.templates import Template
from gpt2cli.tokenizer import Tokenizer

_ROOM_SHARE: Final = 4  # at most one part in four of the context is held free for the reply


def build_history(conversation: Conversation, template: Template) -> list[int]:
    """Return the ids of all that the model sees before the next message."""
    ids = template.begin()
    for number, turn in enumerate(conversation.turns[conversation.first :]):
        ids += _build_turn(turn, template, first=number == 0)
    return ids


def fit(
    conversation: Conversation,
    message: str,
    template: Template,
    *,
    n_positions: int,
    max_new_tokens: int,
) -> tuple[Conversation, list[int]]:
    """Return the prompt for a message, and the conversation without the oldest turns if need be.

    Then they go until half of the context is free: what is left must be prefilled again, which
    should not happen at every turn. The last message stays, whether it fits or not.
    """
    room = min(max_new_tokens, n_positions // _ROOM_SHARE)
    ids = _build_prompt(conversation, message, template)
    if len(ids) > n_positions - room:
        seen = conversation.turns[conversation.first :]
        freed = accumulate(len(_build_turn(turn, template, first=False)) for turn in seen)
        excess = len(ids) - n_positions // 2
        going = next((n for n, size in enumerate(freed, start=1) if size >= excess), len(seen))
        conversation = replace(conversation, first=conversation.first + going)
        ids = _build_prompt(conversation, message, template)
    return conversation, ids


def _build_turn(turn: Turn, template: Template, *, first: bool) -> list[int]:
    reply = template.answer(turn.reply) if turn.reply_ids is None else turn.reply_ids
    return [*template.ask(turn.message, first=first), *reply, *template.close()]


def _build_prompt(conversation: Conversation, message: str, template: Template) -> list[int]:
    first = conversation.first == len(conversation.turns)
    return build_history(conversation, template) + template.ask(message, first=first)


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
    return (*drawn[:kept], *(tokenizer.encode(rest) if rest else ()))


def _is_continuation(byte: int) -> bool:
    """Tell whether a byte goes on with a character of UTF-8."""
    return byte & 0xC0 == 0x80
