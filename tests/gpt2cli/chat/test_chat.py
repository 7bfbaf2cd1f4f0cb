"""Claims about a conversation: a scripted model answers, and its engine counts the work."""

from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import pytest

from gpt2cli.chat.chat import Chat
from gpt2cli.config import SamplingConfig
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.errors import PromptError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.settings import Given
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import (
    answer,
    make_chat,
    make_settings,
    prefilled,
    say,
    shout,
    talker,
)
from tests.gpt2cli.scripted import ScriptedEngine, scatter

EOS: Final = 96
DRAWING: Final = SamplingConfig(top_k=0)


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
    "written", [" Hi\nUser: and on", "\n Hi \n\n \nUser: x", " Hi\nUser:User:"]
)
def test_a_reply_ends_where_the_model_speaks_for_the_user(
    ascii_tokenizer: Tokenizer, written: str
) -> None:
    """Neither the name nor the white space before it is ever shown."""
    said, conversation = reply_to(ascii_tokenizer, written)
    assert said.reply == conversation.turns[-1].reply == "Hi"
    assert "".join(said.pieces[:1]) == "H"
    assert said.exchange.finish.stop_sequence == "\nUser:"


@pytest.mark.parametrize("begun", ["\n", "\nUser", "\n\nUser", " \nUser"])
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


@pytest.mark.parametrize("written", ["", "\n\n", "\nUser:"])
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


# What the model sees, and what is computed


def test_the_model_sees_all_that_was_said(ascii_tokenizer: Tokenizer) -> None:
    """The context is the exact text, and its number of tokens."""
    engine = talker(ascii_tokenizer, shout)
    chat = make_chat(engine, ascii_tokenizer, conversation=Conversation(system="A wood."))
    assert chat.context() == ("A wood.\n\n", 9)
    say(chat, " hi \n")
    say(chat, "bye")
    text = "A wood.\n\nUser: hi\nBot: HI\nUser: bye\nBot: BYE"
    assert chat.context() == (text, len(text))


def test_a_turn_prefills_only_what_is_new(ascii_tokenizer: Tokenizer) -> None:
    """Also the twentieth: the two names and the message, for the reply ended with EOS."""
    engine = talker(ascii_tokenizer, shout, n_positions=1000)
    chat = make_chat(engine, ascii_tokenizer)
    exchanges = [say(chat, "hi").exchange for _ in range(20)]
    whole, new = len("User: hi\nBot:"), len("\nUser: hi\nBot:")
    assert prefilled(engine) == [whole] + 19 * [new]
    assert exchanges[-1].counts.prefill_tokens == new
    assert ascii_tokenizer.show(engine.slots[0]) == chat.context()[0]


def test_what_the_model_wrote_of_the_users_name_is_read_again(ascii_tokenizer: Tokenizer) -> None:
    """It stepped the same tokens, but they are no part of the reply."""
    engine = talker(ascii_tokenizer, lambda message: f" {message}\nUser:")
    chat = make_chat(engine, ascii_tokenizer)
    say(chat, "hi")
    say(chat, "hi")
    assert prefilled(engine)[1] == len("\nUser: hi\nBot:")


def test_the_last_token_of_a_reply_that_was_cut_off_is_stepped(ascii_tokenizer: Tokenizer) -> None:
    """As the others were; it was not yet fed."""
    engine = talker(ascii_tokenizer, lambda message: " abc")
    chat = make_chat(engine, ascii_tokenizer, settings=make_settings(max_new_tokens=3))
    say(chat, "hi")
    say(chat, "hi")
    assert prefilled(engine)[1:] == [1, len("\nUser: hi\nBot:")]


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


# Drawing anew


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
    set_seed(chat, first.exchange.request.seed)
    assert answer(chat, chat.ask_again()).reply == first.reply


def set_seed(chat: Chat, seed: int) -> None:
    """Do what /set seed does."""
    chat.change_settings(chat.settings.over({"seed": Given(seed)}))
    chat.restart_seed()


@pytest.mark.parametrize(
    ("steps", "seeds"),
    [
        # For a new reply or the last one anew; one that was undone has its seed again.
        (["a", "b", 70, "again", "c", "undo", "d", 90, "e"], [5, 70, 71, 90]),
        # A message that comes to nothing takes none.
        (["a", 70, "x" * 600, "again"], [70]),
        (["a", 70, "b", "forget", "c", "d"], [70, 71]),
    ],
)
def test_the_next_reply_has_the_seed_that_was_set_and_others_count_up(
    ascii_tokenizer: Tokenizer, steps: list[str | int], seeds: list[int]
) -> None:
    """As a conversation that begins anew does."""
    chat = drawing_chat(ascii_tokenizer, seed=5)
    for step in steps:
        if isinstance(step, int):
            set_seed(chat, step)
        elif step == "again":
            answer(chat, chat.ask_again())
        elif step == "undo":
            chat.undo()
        elif step == "forget":
            chat.conversation = chat.conversation.forget()
        else:
            with nullcontext() if len(step) < 600 else pytest.raises(PromptError, match="shorten"):
                say(chat, step)
    assert [turn.seed for turn in chat.conversation.turns] == seeds


# Settings


def test_special_tokens_are_for_those_who_allow_them(ascii_tokenizer: Tokenizer) -> None:
    settings = make_settings(
        sampling=SamplingConfig(temperature=0, logit_bias=(("<|endoftext|>", 100.0),))
    )
    engine = ScriptedEngine(scatter(97), n_positions=100, vocab_size=97, max_slots=1)
    chat = make_chat(engine, ascii_tokenizer, settings=settings, allow_special=True)
    said = say(chat, "a<|endoftext|>b")
    assert EOS in said.exchange.prepared.prompt_ids
    assert said.reply == ""


def test_a_conversation_from_elsewhere_is_gone_on_with(ascii_tokenizer: Tokenizer) -> None:
    """Its replies are known by their text; all is prefilled once, then only what is new."""
    turn = Turn("a", "A", FinishReason.STOP, 0)
    engine = talker(ascii_tokenizer, shout)
    chat = make_chat(engine, ascii_tokenizer, conversation=Conversation(turns=(turn,)))
    say(chat, "b")
    say(chat, "c")
    assert prefilled(engine) == [len("User: a\nBot: A\nUser: b\nBot:"), len("\nUser: c\nBot:")]
