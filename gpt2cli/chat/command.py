"""`gpt2 chat`: its options."""

import typer

from gpt2cli.chat.config import ChatConfig
from gpt2cli.config import (
    DraftConfig,
    GenerationConfig,
    ModelConfig,
    PresetConfig,
    ReportConfig,
    SamplingConfig,
    SeedConfig,
    TextConfig,
)
from gpt2cli.conversations.config import FormConfig
from gpt2cli.options import takes
from gpt2cli.settings import Settings


@takes(
    FormConfig, ChatConfig, TextConfig, SamplingConfig, SeedConfig, GenerationConfig, ReportConfig,
    ModelConfig, DraftConfig, PresetConfig,
    max_new_tokens=128,
)  # fmt: skip
def chat(*, settings: Settings) -> None:
    """Talk with a model.

    It sees a transcript and writes its next line. /help lists the commands.
    Ctrl-C ends a reply, Ctrl-D the chat. Replies go to stdout, the rest to stderr.

    For example:

    gpt2 chat --system "A talk between a farmer and a fox." --bot-name Fox

    gpt2 chat --json < script.txt | jq -r .completion
    """
    from gpt2cli.chat.run import run_chat  # heavy: not for --help

    code = run_chat(settings)
    if code:
        raise typer.Exit(code)
