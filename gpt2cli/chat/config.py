"""The options that a chat alone has."""

from dataclasses import dataclass
from pathlib import Path

from gpt2cli.config import REPORT
from gpt2cli.conversations.config import CONVERSATION
from gpt2cli.declarations import option
from gpt2cli.option_kinds import TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConfig:
    """What stands before a conversation, and where it is kept."""

    system: str | None = option(
        None,
        "Text before the conversation, kept when old turns are dropped.",
        CONVERSATION,
        kind=TEXT,
    )
    session: Path | None = option(
        None, "Keep the conversation in FILE after each turn, and continue it the next time.",
        CONVERSATION, usual="none: it is not saved",
    )  # fmt: skip
    json: bool = option(False, "Print one JSON record per turn, not text.", REPORT)
