"""Claims about a conversation after detours: what was tried and taken back leaves no trace."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt2cli.chat.chat import Chat
from gpt2cli.config import SamplingConfig
from gpt2cli.conversations.conversation import Conversation
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.model_folder import ModelFolder, ModelShape
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import NEVER, answer, make_chat, make_settings, say

DRAWING: Final = SamplingConfig(top_k=0)


class Recorded(Engine):
    """A real engine that remembers the logits it gave."""

    logits: list[bytes]

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        logits = super().extend(slot, ids, positions)
        self.logits.append(logits.tobytes())
        return logits

    def decode(self, ids: Sequence[int]) -> Any:
        logits = super().decode(ids)
        self.logits.append(logits.tobytes())
        return logits


@pytest.fixture(scope="module")
def real(starter: ModelFolder) -> tuple[Recorded, Tokenizer]:
    """Return a real engine, on which one chat runs after the other."""
    return Recorded(starter, Device("cpu"), max_slots=1, threads=1), Tokenizer(starter)


class TestBits:
    """Claims about a real model: to the last bit the same, whatever was tried in between."""

    MESSAGES = ("Hello, who are you?", "Do you like the forest?", "Why is the bear so sad today?")

    @pytest.fixture
    def chat(self, real: tuple[Recorded, Tokenizer]) -> Iterator[Chat]:
        """Return a chat that begins, on an engine without an open slot after it."""
        yield self.begin(*real)
        while real[0].lengths:
            real[0].free(0)

    @staticmethod
    def begin(engine: Recorded, tokenizer: Tokenizer) -> Chat:
        """Close what is open, and begin."""
        while engine.lengths:
            engine.free(0)
        engine.logits = []
        settings = make_settings(seed=3, sampling=SamplingConfig(top_k=40), max_new_tokens=12)
        return make_chat(engine, tokenizer, settings=settings)

    @classmethod
    def talk(cls, chat: Chat, real: tuple[Recorded, Tokenizer]) -> list[bytes]:
        """Say the last message and return the logits of its reply."""
        real[0].logits.clear()
        say(chat, cls.MESSAGES[-1])
        return list(real[0].logits)

    @pytest.fixture(scope="class")
    @classmethod
    def straight(cls, real: tuple[Recorded, Tokenizer]) -> tuple[Conversation, list[bytes]]:
        """Return how a chat without any detour ends."""
        chat = cls.begin(*real)
        for message in cls.MESSAGES[:-1]:
            say(chat, message)
        logits = cls.talk(chat, real)
        return chat.conversation, logits

    @pytest.mark.parametrize(
        "detour", ["undo", "undo all", "edit", "regenerate", "regenerate often", "interrupt"]
    )
    def test_the_same_turns_give_the_same_bits_after_any_detour(
        self,
        straight: tuple[Conversation, list[bytes]],
        chat: Chat,
        real: tuple[Recorded, Tokenizer],
        detour: str,
    ) -> None:
        """Each detour ends with the same two turns as a chat that never made one."""
        first, second, _ = self.MESSAGES
        if detour == "undo all":
            say(chat, "Hello, and good morning to you")
            say(chat, "What?")
            chat.undo()
            chat.undo()
        say(chat, first)
        if detour == "edit":
            say(chat, f"{second[:12]}rain, or the sun, or both of them?")
            answer(chat, chat.ask_again(second))
        elif detour == "undo":
            say(chat, f"{second[:12]}rain")
            chat.undo()
            say(chat, second)
        elif detour == "interrupt":
            pieces = chat.answer(chat.ask(f"{second} I do."), NEVER)
            next(pieces)
            pieces.close()
            chat.undo()
            say(chat, second)
        else:
            say(chat, second)
        if detour == "regenerate often":
            chat.undo()
            say(chat, "Oh.")
            chat.undo()
            say(chat, second)
        if detour.startswith("regenerate"):
            answer(chat, chat.ask_again())
        logits = self.talk(chat, real)
        assert (chat.conversation, logits) == straight


class OriginEngine:
    """An engine whose logits tell which tokens were stepped, as a real one's bits may.

    It likes to write the user's name. Without `keeps_cuts` they tell all that was read together.
    """

    shape = ModelShape(1, 1, 8, 8, 4000, 97)
    max_slots = slot_limit = 1
    most_steps = 3

    def __init__(self, *, keeps_cuts: bool) -> None:
        self.keeps_cuts = keeps_cuts
        self._slot: list[tuple[int, int]] = []  # ids, each with a mark

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        """Append ids that have one mark: 0 for a single one, which is stepped."""
        mark = zlib.crc32(repr((len(self._slot), tuple(ids))).encode())
        if self.keeps_cuts or len(ids) == 1:
            mark = int(len(ids) > 1 or not self._slot)
        self._slot += [(token_id, mark) for token_id in ids]
        assert list(positions) == [len(ids) - 1]
        return self._make_logits()

    def decode(self, ids: Sequence[int]) -> Any:
        self._slot += [(token_id, 0) for token_id in ids]
        return self._make_logits()

    def verify(self, slot: int, ids: Sequence[int]) -> Any:
        """Step through some ids."""
        return np.concatenate([self.decode([token_id]) for token_id in ids])

    def rewind(self, slot: int, length: int) -> None:
        """Forget what comes after."""
        assert length <= len(self._slot)
        del self._slot[length:]

    def fork(self, source: int, target: int, length: int | None = None) -> None:
        """Never come here."""
        raise AssertionError

    def save(self, slot: int, length: int) -> Any:
        """Never come here."""
        raise AssertionError

    def load(self, saved: Any, slot: int, length: int) -> None:
        """Never come here."""
        raise AssertionError

    def drop(self, saved: Any) -> None:
        """Never come here."""
        raise AssertionError

    def free(self, slot: int) -> None:
        raise AssertionError

    def _make_logits(self) -> Any:
        key = zlib.crc32(repr(self._slot).encode())
        logits = (np.random.Philox(key=key).random_raw(97) >> np.uint64(40)).astype(np.float32)
        name = "\nUser:"
        last = self._slot[-1][0]
        follows = {ord(a) - 32: ord(b) - 32 for a, b in pairwise(name)}
        follows[95] = ord("U") - 32  # the newline's own id
        logits /= np.float32(2**22)  # 0 … 4
        logits[[95, follows.get(last, 95)]] += np.float32(5)
        return logits[None]


_DETOURS = st.lists(st.sampled_from(["say a", "say ab", "say b", "undo", "again", "edit ac"]))


@settings(max_examples=40)
@given(
    detour=_DETOURS,
    wanted=st.lists(st.sampled_from(["a", "ab", "abc", "b"]), max_size=4),
    keeps_cuts=st.booleans(),
)
def test_the_same_turns_give_the_same_replies_after_any_detour(
    ascii_tokenizer: Tokenizer, detour: list[str], wanted: list[str], keeps_cuts: bool
) -> None:
    """Turns that were said and taken back, drawn anew or edited leave no trace in what comes."""
    seeded = make_settings(seed=1, sampling=DRAWING, max_new_tokens=9)
    engines = [OriginEngine(keeps_cuts=keeps_cuts) for _ in range(2)]
    chats = [make_chat(engine, ascii_tokenizer, settings=seeded) for engine in engines]
    for step in detour:
        name, _, message = step.partition(" ")
        if name == "say":
            say(chats[0], message)
        elif chats[0].conversation.turns:
            if name == "undo":
                chats[0].undo()
            else:
                answer(chats[0], chats[0].ask_again(message or None))
    for turn in chats[0].conversation.turns:
        assert say(chats[1], turn.message).reply == turn.reply
    for message in wanted:
        replies = [say(chat, message).reply for chat in chats]
        assert replies[0] == replies[1]
