"""Who speaks in a chat, in what form, and where it is kept."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from gpt2cli.commands.option_kinds import option, text
from gpt2cli.commands.options.panels import CHAT, REPORT, AllowSpecial


class TemplateChoice(StrEnum):
    """Values of --template."""

    AUTO = "auto"
    TRANSCRIPT = "transcript"
    DIALOGPT = "dialogpt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormOptions:
    """Who speaks, in what form the model sees it, and where it is kept."""

    user_name: Annotated[
        str | None,
        text(
            CHAT, "--user-name", metavar="NAME",
            help="Your name in the transcript. Default User.",
        ),
    ] = None  # fmt: skip
    bot_name: Annotated[
        str | None,
        text(
            CHAT, "--bot-name", metavar="NAME",
            help="The model's name in the transcript. Default Bot.",
        ),
    ] = None  # fmt: skip
    system: Annotated[
        str | None,
        text(
            CHAT, "--system", metavar="TEXT",
            help="Text before the conversation, kept when old turns go. Default: none.",
        ),
    ] = None  # fmt: skip
    template: Annotated[
        TemplateChoice,
        option(
            CHAT, "--template",
            help="Form in which the model sees the conversation: lines that begin with a name, or "
            "DialoGPT's. Default auto: DialoGPT's if the model's config.json says so.",
        ),
    ] = TemplateChoice.AUTO  # fmt: skip
    session: Annotated[
        Path | None,
        option(
            CHAT, "--session", metavar="FILE",
            help="Keep the conversation in FILE after each turn, and take it up again from there. "
            "Default: it is not kept.",
        ),
    ] = None  # fmt: skip
    json: Annotated[
        bool, option(REPORT, "--json", help="Print one JSON record per turn, not text.")
    ] = False
    allow_special: AllowSpecial = False
