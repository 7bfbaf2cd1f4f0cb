"""Conversations with a scripted model that answers each message as a function says."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.chat.chat import Chat, Exchange
from gpt2cli.chat.settable import all_options
from gpt2cli.config import SamplingConfig, TextConfig, values_of
from gpt2cli.conversations.conversation import Conversation
from gpt2cli.conversations.sandbox import ChatTemplate
from gpt2cli.declarations import options_of
from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import LogitsEngine
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.settings import Given, Settings
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.scripted import LogitsOf, ScriptedEngine, prefer

NEVER: Final = lambda: False  # noqa: E731
_LAST_LINES: Final = re.compile(rb".*User: (.*?)\nBot:(.*)", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """A reply, piece by piece and whole, and all else that is known of it."""

    pieces: tuple[str, ...]
    exchange: Exchange

    @property
    def reply(self) -> str:
        return "".join(self.pieces)


def refuse_template() -> ChatTemplate:
    raise UsageError(option="template", found="a model without a chat template")


def shout(message: str) -> str:
    return f" {message.upper()}"


def spell(tokenizer: Tokenizer, reply_of: Callable[[str], str], *, vocab_size: int) -> LogitsOf:
    """Return logits that spell the reply to the last message of a transcript, then EOS.

    The tokenizer has one token for each byte, and EOS after them.
    """

    def logits_of(ids: Sequence[int]) -> NDArray[np.float32]:
        text = b"".join(map(tokenizer.token_bytes, ids))
        found = _LAST_LINES.fullmatch(text)
        assert found is not None, text
        reply = tokenizer.encode_text(reply_of(found[1].decode()))
        place = len(found[2])
        return prefer(vocab_size, reply[place] if place < len(reply) else vocab_size - 1)

    return logits_of


def talker(
    tokenizer: Tokenizer,
    reply_of: Callable[[str], str],
    *,
    n_positions: int = 200,
    vocab_size: int = 97,
) -> ScriptedEngine:
    return ScriptedEngine(
        spell(tokenizer, reply_of, vocab_size=vocab_size),
        n_positions=n_positions,
        vocab_size=vocab_size,
        max_slots=1,
    )


def make_settings(
    *, seed: int | None = None, sampling: SamplingConfig | None = None, **limits: Any
) -> Settings:
    """Return settings, greedy if nothing else is said; `limits` are GenerationConfig's."""
    options = {option.field: option for option in (*all_options(), *options_of(TextConfig))}
    given = values_of(sampling or SamplingConfig(temperature=0))
    given |= {"seed": seed, "max_new_tokens": 40, **limits}
    return Settings(options, ({field: Given(value) for field, value in given.items()},))


def make_chat(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    *,
    settings: Settings | None = None,
    conversation: Conversation | None = None,
    template: str = "transcript",
    allow_special: bool = False,
    sampler: Sampler | None = None,
    load_template: Callable[[], ChatTemplate] = refuse_template,
) -> Chat:
    return Chat(
        engine,
        tokenizer,
        sampler or Sampler(),
        settings=(settings or make_settings()).over({"allow_special": Given(allow_special)}),
        conversation=(conversation or Conversation()).in_form(template),
        load_template=load_template,
    )


def answer(chat: Chat, exchange: Exchange) -> Said:
    return Said(tuple(chat.answer(exchange, NEVER)), exchange)


def say(chat: Chat, message: str) -> Said:
    return answer(chat, chat.ask(message))


def prefilled(engine: ScriptedEngine) -> list[int]:
    """Return how many ids each prefill had so far."""
    return [len(call[2]) for call in engine.calls if call[0] == "extend"]
