"""The options that say in what form a model sees a conversation."""

from dataclasses import dataclass
from typing import Final

from gpt2cli.config import AUTO
from gpt2cli.declarations import option
from gpt2cli.option_kinds import TEXT, one_of

CONVERSATION: Final = "Conversation"  # the panel of --help
OWN: Final = "model"
FORMS: Final = (OWN, "transcript", "dialogpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormConfig:
    """Who speaks, and in what form the model sees it."""

    user_name: str | None = option(
        None, "Your name in the transcript.", CONVERSATION, kind=TEXT, metavar="NAME", usual="User"
    )
    bot_name: str | None = option(
        None, "The model's name in the transcript.", CONVERSATION, kind=TEXT, metavar="NAME",
        usual="Bot",
    )  # fmt: skip
    template: str = option(
        AUTO, "Form in which the model sees the conversation: the model's own chat template, lines "
        "that begin with a name, or DialoGPT's.", CONVERSATION, kind=one_of((AUTO, *FORMS)),
        usual="auto: a session's own; else the model's if it has one; else DialoGPT's if its "
        "config.json says so; else transcript",
    )  # fmt: skip

    @property
    def names(self) -> dict[str, str]:
        """The names that were given, as fields of a conversation."""
        given = {"user_name": self.user_name, "bot_name": self.bot_name}
        return {field: name for field, name in given.items() if name is not None}
