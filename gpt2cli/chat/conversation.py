"""What was said: turns, the names of the two who speak, and the text that stands before it all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import FinishReason


@dataclass(frozen=True, slots=True)
class Turn:
    """One message and its reply, without the white space around them."""

    message: str
    reply: str
    finish_reason: FinishReason
    seed: int
    first: int = 0  # the number of the oldest turn that the model saw before it
    # The reply as it was drawn; None where only its text is known.
    reply_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns in order, and what stands around them.

    Raises:
        UsageError: if a name cannot stand before a line of the transcript.
    """

    user_name: str = "User"
    bot_name: str = "Bot"
    system: str = ""
    turns: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        for option, name in (("user_name", self.user_name), ("bot_name", self.bot_name)):
            if name != name.strip() or len(name.splitlines()) != 1:
                raise UsageError(option=option, expected="a name on one line", found=repr(name))
        if self.user_name == self.bot_name:
            fault = f"expected another name than {self.user_name!r}"
            raise UsageError(fault, option="bot_name")

    @property
    def first(self) -> int:
        """The number of the oldest turn that the model sees: one that went never comes back."""
        return self.turns[-1].first if self.turns else 0

    def add(self, turn: Turn) -> "Conversation":
        """Return the conversation with one more turn."""
        return replace(self, turns=(*self.turns, turn))

    def take_back(self) -> "Conversation":
        """Return the conversation as it was before its last turn."""
        return replace(self, turns=self.turns[:-1])

    def forget(self) -> "Conversation":
        """Return the conversation without any turn."""
        return replace(self, turns=())
