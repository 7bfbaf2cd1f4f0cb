"""Claims about a conversation that outgrows the model, or is cut short."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

from gpt2cli.chat.chat import Chat, Exchange
from gpt2cli.config import Overflow
from gpt2cli.conversations.conversation import Conversation
from gpt2cli.errors import PromptError
from gpt2cli.settings import Given
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import answer, make_chat, make_settings, say, shout, talker
from tests.gpt2cli.scripted import ScriptedEngine

# When the context is full


def test_sixty_turns_overflow_and_the_conversation_goes_on(ascii_tokenizer: Tokenizer) -> None:
    """The oldest go, the system text stays, and no prompt leaves less than the room for a reply."""
    engine = talker(ascii_tokenizer, shout, n_positions=200)
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
    chat = make_chat(talker(ascii_tokenizer, shout, n_positions=100), ascii_tokenizer)
    for message in ("a", "b", "c"):
        say(chat, message)
    before = chat.context()
    exchange = say(chat, "d" * 20).exchange
    assert exchange.dropped > 0
    answer(chat, chat.ask_again())
    chat.undo()
    assert chat.context() == before


def test_a_reply_that_slides_is_remembered_by_its_text(ascii_tokenizer: Tokenizer) -> None:
    """Its prompt has left the slot; the conversation goes on all the same."""
    chat = sliding_chat(ascii_tokenizer, sliding_engine(40), system="", new=60)
    for _ in range(3):
        assert say(chat, "hi").reply == "x" * 60
    assert chat.conversation.turns[-1].drawn == 0


def sliding_engine(n_positions: int) -> ScriptedEngine:
    x = np.eye(97, dtype=np.float32)[88]
    return ScriptedEngine(lambda ids: x, n_positions=n_positions, vocab_size=97, max_slots=1)


def sliding_chat(
    tokenizer: Tokenizer,
    engine: ScriptedEngine | None = None,
    *,
    system: str = "A wood.",
    new: int = 20,
    **names: Any,
) -> Chat:
    """Return a chat that slides, of a hundred tokens if nothing else is said."""
    settings = make_settings(max_new_tokens=new, overflow=Overflow.SLIDE)
    conversation = Conversation(system=system, **names)
    engine = engine or sliding_engine(100)
    return make_chat(engine, tokenizer, settings=settings, conversation=conversation)


@pytest.mark.parametrize("length", [36, 60, 79, 80, 100, 1000])
def test_of_a_long_message_the_end_is_seen_after_the_system_text(
    ascii_tokenizer: Tokenizer, length: int
) -> None:
    """That has 9 tokens; of a full context half of the other 91 stays: 45. Older turns go.

    Up to 99 tokens it is seen whole: at a hundred there is nothing to draw.
    """
    chat = sliding_chat(ascii_tokenizer)
    say(chat, "a" * 50)
    message = "n" * (length - 5) + "mmmmm"
    exchange = say(chat, message).exchange
    whole = f"A wood.\n\nUser: {message}\nBot:"
    seen = whole if len(whole) < 100 else f"A wood.\n\n{whole[-45:]}"
    assert exchange.finish is not None
    assert exchange.finish.prompt_tokens == len(whole)
    assert exchange.finish.truncated_prompt_tokens == len(whole) - len(seen)
    assert ascii_tokenizer.show(exchange.seen_ids) == seen


def test_of_a_long_turn_the_end_is_seen_before_the_next_message(ascii_tokenizer: Tokenizer) -> None:
    """As much as stays beside the system text: the reply, and of the message the rest."""
    chat = sliding_chat(ascii_tokenizer)
    say(chat, "m" * 300)
    exchange = say(chat, "b").exchange
    end = f"\nBot:{'x' * 20}\nUser: b\nBot:"
    shown = "m" * (45 - len(end)) + end
    assert ascii_tokenizer.show(exchange.seen_ids) == f"A wood.\n\n{shown}"


def test_where_ids_slide_the_system_text_stays_in_a_long_reply(ascii_tokenizer: Tokenizer) -> None:
    engine = sliding_engine(60)
    say(sliding_chat(ascii_tokenizer, engine, new=200), "hi")
    prefills = [ascii_tokenizer.show(call[2]) for call in engine.calls if call[0] == "extend"]
    assert len(prefills) > 3
    assert all(text.startswith("A wood.\n\n") for text in prefills)


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("length", [1, 40, 70, 84, 85, 90, 300])
def test_the_context_is_what_the_model_sees_next_and_fits(
    ascii_tokenizer: Tokenizer, overflow: Overflow, length: int
) -> None:
    """However long the turn before: the next prompt is that text, an empty message, the names."""
    chat = sliding_chat(ascii_tokenizer)
    say(chat, "m" * length)
    chat.change_settings(chat.settings.over({"overflow": Given(overflow)}))
    text, tokens = chat.context()
    assert text.startswith("A wood.\n\n") and len(text) == tokens <= 100
    exchange = chat.ask("")
    assert ascii_tokenizer.show(exchange.seen_ids) == text + (
        "User: \nBot:" if text.endswith("\n\n") else "\nUser: \nBot:"
    )


@pytest.mark.parametrize("overflow", Overflow)
def test_a_system_text_that_leaves_no_room_is_refused(
    ascii_tokenizer: Tokenizer, overflow: Overflow
) -> None:
    """With both numbers; /context has no more than fits."""
    chat = sliding_chat(ascii_tokenizer, system="s" * 98)
    chat.change_settings(chat.settings.over({"overflow": Given(overflow)}))
    with pytest.raises(
        PromptError, match=r"system text has 100 tokens .* model's 100: shorten the s"
    ):
        chat.ask("m")
    assert chat.context() == ("s" * 98 + "\n\n", 100)


def test_names_that_leave_no_room_are_named(ascii_tokenizer: Tokenizer) -> None:
    """They stand in every turn: here 2 · 60 characters, and 4 around them."""
    chat = sliding_chat(ascii_tokenizer, user_name="u" * 60, bot_name="b" * 60)
    with pytest.raises(PromptError, match=r"names 124, .* model's 100: shorten the names"):
        chat.ask("m")


def test_where_less_is_refused_all_of_the_reply_has_room(ascii_tokenizer: Tokenizer) -> None:
    """`overflow error`: old turns go before a message is refused that would fit without them."""
    settings = make_settings(max_new_tokens=60, overflow=Overflow.ERROR)
    chat = make_chat(
        talker(ascii_tokenizer, shout, n_positions=100), ascii_tokenizer, settings=settings
    )
    assert [say(chat, "hi").reply for _ in range(5)] == 5 * ["HI"]
    with pytest.raises(PromptError, match="60 new ones exceed"):
        chat.ask("m" * 30)


def test_many_turns_cost_no_more_than_the_first(ascii_tokenizer: Tokenizer) -> None:
    """Neither work nor memory grows, but for the words themselves."""
    engine = talker(ascii_tokenizer, shout, n_positions=200)
    chat = make_chat(engine, ascii_tokenizer)
    kept: list[int] = []
    tracemalloc.start()
    for number in range(150):
        say(chat, "hi")
        engine.calls.clear()
        if number in (50, 100, 149):
            gc.collect()  # what only circles hold is not kept, and goes at a time of its own
            kept.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert kept[2] - kept[1] < 1.2 * (kept[1] - kept[0]) + 10_000
    assert (kept[2] - kept[0]) / 100 < 2_000  # bytes a turn


# Interruptions


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("name", ["extend", "decode"])
def test_a_step_that_is_cut_off_leaves_a_slot_to_go_on_with(
    ascii_tokenizer: Tokenizer, name: str, call: int
) -> None:
    """After the engine's work but before it is noted; what was shown until then is kept."""
    engine = talker(ascii_tokenizer, shout)
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
