"""The options that a chat alone has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.config import AUTO, REPORT
from gpt2cli.declarations import option
from gpt2cli.option_kinds import TEXT, one_of

_CHAT: Final = "Conversation"
OWN: Final = "model"
FORMS: Final = (OWN, "transcript", "dialogpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConfig:
    """Who speaks, in what form the model sees it, and where it is kept."""

    user_name: str | None = option(
        None, "Your name in the transcript.", _CHAT, kind=TEXT, metavar="NAME", usual="User"
    )
    bot_name: str | None = option(
        None, "The model's name in the transcript.", _CHAT, kind=TEXT, metavar="NAME", usual="Bot"
    )
    system: str | None = option(
        None, "Text before the conversation, kept when old turns are dropped.", _CHAT, kind=TEXT
    )
    template: str = option(
        AUTO, "Form in which the model sees the conversation: the model's own chat template, lines "
        "that begin with a name, or DialoGPT's.", _CHAT, kind=one_of((AUTO, *FORMS)),
        usual="auto: the session's; else the model's if it has one; else DialoGPT's if its "
        "config.json says so; else transcript",
    )  # fmt: skip
    session: Path | None = option(
        None, "Keep the conversation in FILE after each turn, and continue it the next time.",
        _CHAT, usual="none: it is not saved",
    )  # fmt: skip
    json: bool = option(False, "Print one JSON record per turn, not text.", REPORT)
