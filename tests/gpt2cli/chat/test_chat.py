"""Claims about a conversation: a scripted model answers, and its engine counts the work."""

import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt2cli.chat import Chat, Conversation, Exchange, Turn
from gpt2cli.engine import Device, Engine
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation import FinishReason, Overflow
from gpt2cli.model_folder import ModelFolder, ModelShape
from gpt2cli.sampling import SamplingConfig
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import (
    NEVER,
    answer,
    make_chat,
    make_settings,
    prefilled,
    say,
    talker,
)
from tests.gpt2cli.scripted import ScriptedEngine, scatter

EOS: Final = 96
DRAWING: Final = SamplingConfig(top_k=0)


def shouted(message: str) -> str:
    """Answer with the same words in capitals."""
    return f" {message.upper()}"


def reply_to(tokenizer: Tokenizer, reply: str, *, vocab_size: int = 97, **limits: Any) -> Any:
    """Return what is said where the model would write `reply`, and the conversation after it."""
    engine = talker(tokenizer, lambda message: reply, vocab_size=vocab_size)
    chat = make_chat(engine, tokenizer, settings=make_settings(**limits))
    said = say(chat, "hi")
    assert said.reply == said.exchange.reply
    assert "" not in said.pieces
    return said, chat.conversation


# Where a reply ends


@pytest.mark.parametrize(
    "written",
    [" Hi\nUser:", " Hi\nUser: and on", " Hi\n\nUser:", "\n Hi \n\n \nUser: x", " Hi\nUser:User:"],
)
def test_a_reply_ends_where_the_model_speaks_for_the_user(
    ascii_tokenizer: Tokenizer, written: str
) -> None:
    """Neither the name nor the white space before it is ever shown."""
    said, conversation = reply_to(ascii_tokenizer, written)

    assert said.reply == conversation.turns[-1].reply == "Hi"
    assert "".join(said.pieces[:1]) == "H"
    assert said.exchange.finish.stop_sequence == "\nUser:"


@pytest.mark.parametrize("begun", ["\n", "\nU", "\nUse", "\nUser", "\n\nUser", " \nUser"])
@pytest.mark.parametrize("limited", [False, True])
def test_a_name_that_is_only_begun_is_not_shown_either(
    ascii_tokenizer: Tokenizer, begun: str, limited: bool
) -> None:
    """Where the model ends the text in its midst, or the limit does."""
    written = f" Hi{begun}"
    limits = {"max_new_tokens": len(written)} if limited else {}
    said, conversation = reply_to(ascii_tokenizer, written, **limits)

    assert said.reply == conversation.turns[-1].reply == "Hi"
    assert said.exchange.finish.reason is (FinishReason.LENGTH if limited else FinishReason.STOP)
    assert ascii_tokenizer.show(conversation.turns[-1].reply_ids or ()) == " Hi"


def test_what_only_looks_like_the_name_is_shown(ascii_tokenizer: Tokenizer) -> None:
    """As soon as it cannot be the name any more, and at the end of another stop."""
    assert reply_to(ascii_tokenizer, " Hi\nUses\nUser.")[0].reply == "Hi\nUses\nUser."
    assert reply_to(ascii_tokenizer, " Hi\nUse!", stop=("!",))[0].reply == "Hi\nUse"


def test_white_space_at_both_ends_is_never_shown(ascii_tokenizer: Tokenizer) -> None:
    """Within the reply it stays as it is."""
    said, _ = reply_to(ascii_tokenizer, " \n  a  b\n\n c \n ")

    assert said.reply == "a  b\n\n c"


@pytest.mark.parametrize("written", ["", " ", "\n\n", "\nUser:"])
def test_a_reply_may_be_empty(ascii_tokenizer: Tokenizer, written: str) -> None:
    """It is a turn all the same, and the next one goes on from there."""
    engine = talker(ascii_tokenizer, lambda message: written if message == "hi" else " Yes")
    chat = make_chat(engine, ascii_tokenizer)

    assert say(chat, "hi").pieces == ()
    assert say(chat, "well?").reply == "Yes"
    assert chat.context()[0] == "User: hi\nBot:\nUser: well?\nBot: Yes"


def test_an_emoji_is_shown_whole(byte_tokenizer: Tokenizer) -> None:
    """Though each of its eleven bytes is a token; one that is cut is U+FFFD, and so remembered."""
    said, conversation = reply_to(byte_tokenizer, " a👩‍🚀b", vocab_size=257)
    cut, _ = reply_to(byte_tokenizer, " a👩", vocab_size=257, max_new_tokens=4)

    assert said.pieces == ("a", "👩", "\u200d", "🚀", "b")
    assert byte_tokenizer.show(conversation.turns[-1].reply_ids or ()) == " a👩‍🚀b"
    assert cut.reply == "a\ufffd"


def test_the_users_own_stops_count_too(ascii_tokenizer: Tokenizer) -> None:
    """Beside the name."""
    said, _ = reply_to(ascii_tokenizer, " One. Two.", stop=(".",))
    assert (said.reply, said.exchange.finish.stop_sequence) == ("One", ".")


# What the model sees, and what is computed


def test_the_model_sees_all_that_was_said(ascii_tokenizer: Tokenizer) -> None:
    """The context is the exact text, and its number of tokens."""
    engine = talker(ascii_tokenizer, shouted)
    chat = make_chat(engine, ascii_tokenizer, conversation=Conversation(system="A wood."))
    assert chat.context() == ("A wood.\n\n", 9)

    say(chat, " hi \n")
    say(chat, "bye")

    text = "A wood.\n\nUser: hi\nBot: HI\nUser: bye\nBot: BYE"
    assert chat.context() == (text, len(text))


def test_a_turn_prefills_only_what_is_new(ascii_tokenizer: Tokenizer) -> None:
    """Also the twentieth: the two names and the message, for the reply ended with EOS."""
    engine = talker(ascii_tokenizer, shouted, n_positions=1000)
    chat = make_chat(engine, ascii_tokenizer)

    exchanges = [say(chat, "hi").exchange for _ in range(20)]

    whole, new = len("User: hi\nBot:"), len("\nUser: hi\nBot:")
    assert prefilled(engine) == [whole] + 19 * [new]
    assert exchanges[-1].counts.prefill_tokens == new
    assert ascii_tokenizer.show(engine.slots[0]) == chat.context()[0]


def test_a_reply_that_met_its_limit_leaves_one_token_more(ascii_tokenizer: Tokenizer) -> None:
    """Its last one, which nothing was drawn after."""
    engine = talker(ascii_tokenizer, shouted)
    chat = make_chat(engine, ascii_tokenizer, settings=make_settings(max_new_tokens=3))

    say(chat, "hi")
    say(chat, "hi")

    assert prefilled(engine)[1] == 1 + len("\nUser: hi\nBot:")


def test_what_the_model_wrote_of_the_users_name_is_not_computed_again(
    ascii_tokenizer: Tokenizer,
) -> None:
    """It wrote the same tokens as the next prompt has; the last one was never fed."""
    engine = talker(ascii_tokenizer, lambda message: f" {message}\nUser:")
    chat = make_chat(engine, ascii_tokenizer)

    say(chat, "hi")
    say(chat, "hi")

    assert prefilled(engine)[1] == len(": hi\nBot:")


def test_dialogpt_has_its_replies_kept_too(ascii_tokenizer: Tokenizer) -> None:
    """A turn prefills EOS, the message and EOS."""
    x = 88
    engine = ScriptedEngine(
        lambda ids: np.eye(97, dtype=np.float32)[x if ids[-2:] != [x, x] else EOS],
        n_positions=100,
        vocab_size=97,
        max_slots=1,
    )
    chat = make_chat(engine, ascii_tokenizer, template="dialogpt")

    assert [say(chat, "hi").reply for _ in range(2)] == ["xx", "xx"]
    assert prefilled(engine) == [3, 4]
    assert chat.context()[0] == 2 * "hi<|endoftext|>xx<|endoftext|>"


# Taking back


def test_a_turn_is_taken_back_and_told(ascii_tokenizer: Tokenizer) -> None:
    """The next message follows the one before it."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    say(chat, "a")
    say(chat, "b")

    assert chat.undo().message == "b"
    assert chat.context()[0] == "User: a\nBot: A"
    say(chat, "c")
    assert chat.context()[0] == "User: a\nBot: A\nUser: c\nBot: C"


def test_before_the_first_turn_there_is_nothing_to_take_back(ascii_tokenizer: Tokenizer) -> None:
    """Nor to draw anew."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)

    with pytest.raises(UsageError, match="nothing has been said yet"):
        chat.undo()
    with pytest.raises(UsageError, match="nothing has been said yet"):
        chat.ask_again()
    with pytest.raises(UsageError, match="nothing has been said yet"):
        chat.ask_again("else")


def test_an_edited_message_takes_the_place_of_the_last(ascii_tokenizer: Tokenizer) -> None:
    """Its turn is the same one: number and seed do not move on."""
    engine = talker(ascii_tokenizer, shouted)
    chat = make_chat(engine, ascii_tokenizer, settings=make_settings(seed=10))
    say(chat, "a")
    say(chat, "b")

    edited = answer(chat, chat.ask_again(" c "))

    assert (edited.reply, edited.exchange.request.prompt) == ("C", "c")
    assert (edited.exchange.request.index, edited.exchange.request.seed) == (1, 11)
    assert [turn.message for turn in chat.conversation.turns] == ["a", "c"]


def drawing_chat(tokenizer: Tokenizer, *, seed: int | None) -> Chat:
    """Return a chat with a model whose every draw is a surprise."""
    engine = ScriptedEngine(scatter(97), n_positions=500, vocab_size=97, max_slots=1)
    settings = make_settings(seed=seed, sampling=DRAWING, max_new_tokens=20, ignore_eos=True)
    return make_chat(engine, tokenizer, settings=settings)


def test_with_a_seed_the_reply_drawn_anew_is_the_same(ascii_tokenizer: Tokenizer) -> None:
    """And nothing is prefilled for it; the turns have different seeds."""
    chat = drawing_chat(ascii_tokenizer, seed=5)
    say(chat, "a")
    first = say(chat, "a")

    again = answer(chat, chat.ask_again())

    assert again.reply == first.reply
    assert again.exchange.counts.prefill_tokens == 0
    assert [turn.seed for turn in chat.conversation.turns] == [5, 6]


def test_without_a_seed_it_is_another(ascii_tokenizer: Tokenizer) -> None:
    """With the seed that was chosen it can be had again."""
    chat = drawing_chat(ascii_tokenizer, seed=None)
    say(chat, "a")
    first = say(chat, "b")

    again = answer(chat, chat.ask_again())

    assert again.reply != first.reply
    assert again.exchange.request.seed != first.exchange.request.seed
    chat.change_settings(
        make_settings(
            seed=first.exchange.request.seed - 1,
            sampling=DRAWING,
            max_new_tokens=20,
            ignore_eos=True,
        )
    )
    assert answer(chat, chat.ask_again()).reply == first.reply


class Recorded(Engine):
    """A real engine that remembers the logits it gave."""

    logits: list[bytes]

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        """Append ids to a slot."""
        logits = super().extend(slot, ids, positions)
        self.logits.append(logits.tobytes())
        return logits

    def decode(self, ids: Sequence[int]) -> Any:
        """Append an id to the slot."""
        logits = super().decode(ids)
        self.logits.append(logits.tobytes())
        return logits


@pytest.fixture(scope="module")
def real(starter: ModelFolder) -> tuple[Recorded, Tokenizer]:
    """Return a real engine, on which one chat runs after the other."""
    return Recorded(starter, Device("cpu"), max_slots=1, threads=2), Tokenizer(starter)


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
        "detour",
        ["undo", "undo all", "edit", "regenerate", "regenerate often", "interrupt"],
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
    """An engine whose logits tell which tokens were prefilled together, as a real one's bits may.

    It likes to write the user's name.
    """

    shape = ModelShape(1, 1, 8, 8, 4000, 97)
    max_slots = 1

    def __init__(self) -> None:
        self._slot: list[tuple[int, int]] = []  # ids, each with the mark of its prefill

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        """Append ids that have one mark."""
        mark = zlib.crc32(repr((len(self._slot), tuple(ids))).encode())
        self._slot += [(token_id, mark) for token_id in ids]
        assert list(positions) == [len(ids) - 1]
        return self._make_logits()

    def decode(self, ids: Sequence[int]) -> Any:
        """Append an id that has none."""
        self._slot += [(token_id, 0) for token_id in ids]
        return self._make_logits()

    def rewind(self, slot: int, length: int) -> None:
        """Forget what comes after."""
        assert length <= len(self._slot)
        del self._slot[length:]

    def fork(self, source: int, target: int) -> None:
        """Never come here."""
        raise AssertionError

    def free(self, slot: int) -> None:
        """Never come here."""
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


@settings(max_examples=60)
@given(detour=_DETOURS, wanted=st.lists(st.sampled_from(["a", "ab", "abc", "b"]), max_size=4))
def test_the_same_turns_give_the_same_replies_after_any_detour(
    ascii_tokenizer: Tokenizer, detour: list[str], wanted: list[str]
) -> None:
    """Turns that were said and taken back, drawn anew or edited leave no trace in what comes."""
    seeded = make_settings(seed=1, sampling=DRAWING, max_new_tokens=9)
    chats = [make_chat(OriginEngine(), ascii_tokenizer, settings=seeded) for _ in range(2)]
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


# When the context is full


def test_sixty_turns_overflow_and_the_conversation_goes_on(ascii_tokenizer: Tokenizer) -> None:
    """The oldest go, the system text stays, and no prompt leaves less than the room for a reply."""
    engine = talker(ascii_tokenizer, shouted, n_positions=200)
    chat = make_chat(engine, ascii_tokenizer, conversation=Conversation(system="A wood."))

    exchanges: list[Exchange] = []
    for number in range(60):
        said = say(chat, f"turn {number}")
        assert said.reply == f"TURN {number}"
        exchanges.append(said.exchange)
        assert ascii_tokenizer.show(said.exchange.prepared.prompt_ids).startswith(
            "A wood.\n\nUser:"
        )

    sizes = [len(exchange.prepared.prompt_ids) for exchange in exchanges]
    assert max(sizes) <= 200 - 40
    dropping = [number for number, exchange in enumerate(exchanges) if exchange.dropped]
    assert 60 / 10 < len(dropping) < 60 / 2  # not at every turn, though ever again
    for number in set(range(60)) - set(dropping) - {0}:
        assert exchanges[number].counts.prefill_tokens <= 2 + len("\nUser: turn 10\nBot:")
    text, tokens = chat.context()
    assert len(text) == tokens < 200
    assert len(chat.conversation.turns) == 60


def test_a_turn_that_made_others_go_gives_them_back(ascii_tokenizer: Tokenizer) -> None:
    """After /undo the model sees what it saw before, and no more than it can."""
    chat = make_chat(talker(ascii_tokenizer, shouted, n_positions=100), ascii_tokenizer)
    for message in ("a", "b", "c"):
        say(chat, message)
    before = chat.context()

    exchange = say(chat, "d" * 20).exchange
    assert exchange.dropped > 0
    answer(chat, chat.ask_again())
    chat.undo()

    assert chat.context() == before


def test_a_message_that_does_not_fit_alone_changes_nothing(ascii_tokenizer: Tokenizer) -> None:
    """The error has both numbers; the next message finds all as it was."""
    chat = make_chat(talker(ascii_tokenizer, shouted, n_positions=100), ascii_tokenizer)
    say(chat, "a")

    with pytest.raises(PromptError, match=r"111 tokens, the model takes 100"):
        chat.ask("m" * 100)

    say(chat, "b")
    assert chat.context()[0] == "User: a\nBot: A\nUser: b\nBot: B"


def test_a_message_that_fills_the_context_has_an_empty_reply(ascii_tokenizer: Tokenizer) -> None:
    """The reason is told; the next message makes it go."""
    chat = make_chat(talker(ascii_tokenizer, shouted, n_positions=100), ascii_tokenizer)

    said = say(chat, "m" * (100 - len("User: \nBot:")))
    assert said.exchange.finish is not None
    assert (said.reply, said.exchange.finish.reason) == ("", FinishReason.CONTEXT)

    assert say(chat, "b").reply == "B"
    assert chat.conversation.first == 1


def test_a_reply_that_slides_is_remembered_by_its_text(ascii_tokenizer: Tokenizer) -> None:
    """Its prompt has left the slot; the conversation goes on all the same."""
    engine = ScriptedEngine(
        lambda ids: np.eye(97, dtype=np.float32)[88], n_positions=40, vocab_size=97, max_slots=1
    )
    settings = make_settings(max_new_tokens=60, overflow=Overflow.SLIDE)
    chat = make_chat(engine, ascii_tokenizer, settings=settings)

    for _ in range(3):
        assert say(chat, "hi").reply == "x" * 60
    assert chat.conversation.turns[-1].reply_ids is None


def test_where_less_is_refused_all_of_the_reply_has_room(ascii_tokenizer: Tokenizer) -> None:
    """`--overflow error`: old turns go before a message is refused that would fit without them."""
    settings = make_settings(max_new_tokens=60, overflow=Overflow.ERROR)
    chat = make_chat(
        talker(ascii_tokenizer, shouted, n_positions=100), ascii_tokenizer, settings=settings
    )

    assert [say(chat, "hi").reply for _ in range(5)] == 5 * ["HI"]
    with pytest.raises(PromptError, match="--max-new-tokens 60 exceed"):
        chat.ask("m" * 30)


def test_three_hundred_turns_cost_no_more_than_the_first(ascii_tokenizer: Tokenizer) -> None:
    """Neither work nor memory grows, but for the words themselves."""
    engine = talker(ascii_tokenizer, shouted, n_positions=200)
    chat = make_chat(engine, ascii_tokenizer)
    kept: list[int] = []
    tracemalloc.start()
    for number in range(300):
        say(chat, "hi")
        engine.calls.clear()
        if number in (100, 200, 299):
            kept.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()

    assert kept[2] - kept[1] < 1.2 * (kept[1] - kept[0]) + 10_000
    assert (kept[2] - kept[0]) / 200 < 2_000  # bytes a turn


# Interruptions


def test_an_interrupted_reply_is_a_turn_and_the_next_one_sees_it(
    ascii_tokenizer: Tokenizer,
) -> None:
    """It ends with what it has, without white space at its end."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    exchange = chat.ask("ab cd")
    pieces: list[str] = []
    for piece in chat.answer(exchange, lambda: len(exchange.reply) >= 2):
        pieces.append(piece)

    assert "".join(pieces) == "AB"
    assert exchange.finish is not None
    assert exchange.finish.reason is FinishReason.INTERRUPTED
    say(chat, "x")
    assert chat.context()[0] == "User: ab cd\nBot: AB\nUser: x\nBot: X"


def test_interrupted_before_anything_was_made_it_is_no_turn(ascii_tokenizer: Tokenizer) -> None:
    """The conversation is as it was."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    exchange = chat.ask("hi")

    assert list(chat.answer(exchange, lambda: True)) == []
    assert exchange.finish is None
    assert chat.conversation.turns == ()
    assert say(chat, "x").reply == "X"


def test_a_reply_that_is_cut_off_keeps_what_was_shown(ascii_tokenizer: Tokenizer) -> None:
    """As at a second Ctrl-C, while it is shown; the slot is sound afterwards."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    exchange = chat.ask("abcd")
    pieces = chat.answer(exchange, NEVER)
    shown = next(pieces) + next(pieces)
    pieces.close()

    [turn] = chat.conversation.turns
    assert (shown, turn.reply, turn.finish_reason) == ("AB", "AB", FinishReason.INTERRUPTED)
    assert exchange.finish is not None
    assert (exchange.finish.prompt_tokens, exchange.finish.completion_tokens) == (15, 3)
    say(chat, "x")
    assert chat.context()[0] == "User: abcd\nBot: AB\nUser: x\nBot: X"


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("name", ["extend", "decode"])
def test_a_step_that_is_cut_off_leaves_a_slot_to_go_on_with(
    ascii_tokenizer: Tokenizer, name: str, call: int
) -> None:
    """After the engine's work but before it is noted; what was shown until then is kept."""
    engine = talker(ascii_tokenizer, shouted)
    chat = make_chat(engine, ascii_tokenizer)
    work = getattr(engine, name)
    count = 0

    def cut(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        result = work(*arguments)
        if count == call + 1:
            raise KeyboardInterrupt
        return result

    setattr(engine, name, cut)
    for message in ("ab", "ab", "abcdef", "ab"):
        try:
            say(chat, message)
        except KeyboardInterrupt:
            continue
    setattr(engine, name, work)

    assert say(chat, "x").reply == "X"
    expected = [(t.message, t.reply) for t in chat.conversation.turns]
    assert all(message.upper().startswith(reply) for message, reply in expected)
    text = chat.context()[0]
    assert "".join(map(chr, (i + 32 if i < 95 else 10 for i in engine.slots[0]))) in text


# Settings


def test_settings_hold_from_the_next_reply_on(ascii_tokenizer: Tokenizer) -> None:
    """And stay."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    say(chat, "abc")
    chat.change_settings(make_settings(max_new_tokens=2))

    assert [say(chat, "abc").reply for _ in range(2)] == ["A", "A"]


@pytest.mark.parametrize("bias", ["ab", "97", "<|endoftext|>"])
def test_settings_that_mean_nothing_to_the_model_are_refused(
    ascii_tokenizer: Tokenizer, bias: str
) -> None:
    """At once, not at each message; the old ones hold."""
    chat = make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer)
    wrong = make_settings(sampling=SamplingConfig(logit_bias=((bias, 1.0),)))
    before = chat.settings

    with pytest.raises(UsageError, match="--logit-bias"):
        chat.change_settings(wrong)
    with pytest.raises(UsageError, match="--logit-bias"):
        make_chat(talker(ascii_tokenizer, shouted), ascii_tokenizer, settings=wrong)
    assert chat.settings is before


def test_special_tokens_are_for_those_who_allow_them(ascii_tokenizer: Tokenizer) -> None:
    """In messages, and where options name a token."""
    settings = make_settings(
        sampling=SamplingConfig(temperature=0, logit_bias=(("<|endoftext|>", 100.0),))
    )
    engine = ScriptedEngine(scatter(97), n_positions=100, vocab_size=97, max_slots=1)
    chat = make_chat(engine, ascii_tokenizer, settings=settings, allow_special=True)

    said = say(chat, "a<|endoftext|>b")

    assert EOS in said.exchange.prepared.prompt_ids
    assert said.reply == ""


def test_a_seed_out_of_range_is_refused() -> None:
    """As on the command line."""
    with pytest.raises(UsageError, match="--seed"):
        make_settings(seed=-1)


def test_a_conversation_from_elsewhere_is_gone_on_with(ascii_tokenizer: Tokenizer) -> None:
    """Its replies are known by their text; all is prefilled once, then only what is new."""
    turn = Turn("a", "A", FinishReason.STOP, 0)
    engine = talker(ascii_tokenizer, shouted)
    chat = make_chat(engine, ascii_tokenizer, conversation=Conversation(turns=(turn,)))

    say(chat, "b")
    say(chat, "c")

    assert prefilled(engine) == [len("User: a\nBot: A\nUser: b\nBot:"), len("\nUser: c\nBot:")]
