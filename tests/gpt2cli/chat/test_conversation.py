"""Claims about what was said, and the names of the two who speak."""

from typing import Any

import pytest

from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import FinishReason


def turn(message: str, *, first: int = 0) -> Turn:
    """Return a turn."""
    return Turn(message, message.upper(), FinishReason.STOP, 0, first)


@pytest.mark.parametrize("name", ["", " ", " Ann", "Ann ", "A\nB", "A\rB", "A\u2028B", "Ann\n"])
@pytest.mark.parametrize("whose", ["user_name", "bot_name"])
def test_a_name_is_some_text_on_one_line(whose: str, name: str) -> None:
    """Else the transcript would not have it where the stop looks for it."""
    names: dict[str, Any] = {whose: name}
    option = whose
    with pytest.raises(UsageError, match=f"^{option}: expected a name on one line"):
        Conversation(**names)


@pytest.mark.parametrize("name", ["Ann Lee", "User 2", "🦊", "a:b", "[bold]"])
def test_any_other_name_will_do(name: str) -> None:
    """With spaces, signs and whatever a model may know."""
    assert Conversation(user_name=name).user_name == name


def test_the_two_have_different_names() -> None:
    """Else a reply would end where the bot goes on."""
    with pytest.raises(UsageError, match="bot_name: expected another name than 'Ann'"):
        Conversation(user_name="Ann", bot_name="Ann")


def test_what_the_model_sees_is_told_by_the_last_turn() -> None:
    """So a turn that is taken back gives back what it made go."""
    before = Conversation(system="s").add(turn("a")).add(turn("b"))
    after = before.add(turn("c", first=2))

    assert (before.first, after.first) == (0, 2)
    assert after.take_back() == before
    assert before.take_back().take_back() == Conversation(system="s")


def test_forgetting_leaves_the_names_and_the_system_text() -> None:
    """As /reset promises."""
    bare = Conversation(user_name="Ann", bot_name="Fox", system="A wood.")
    assert bare.add(turn("a")).forget() == bare
