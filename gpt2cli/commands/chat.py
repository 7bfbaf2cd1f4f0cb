"""`gpt2 chat`: a conversation, typed on a terminal or read from a script."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from gpt2cli import exit_codes
from gpt2cli.config import (
    AUTO,
    REPORT,
    GenerationConfig,
    ModelConfig,
    ReportConfig,
    SamplingConfig,
    SeedConfig,
    TextConfig,
)
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import FILE, SWITCH, TEXT, one_of, option
from gpt2cli.options import takes
from gpt2cli.settings import Settings

if TYPE_CHECKING:
    from gpt2cli.commands.start_chat import ReadyChat
    from gpt2cli.terminal.chat_input import ChatInput
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.replies import ReplyView
    from gpt2cli.terminal.result import ResultWriter


_CHAT: Final = "Conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConfig:
    """Who speaks, in what form the model sees it, and where it is kept."""

    user_name: str | None = option(
        None, "Your name in the transcript.", _CHAT,
        kind=TEXT, metavar="NAME", usual="User", settable=False,
    )  # fmt: skip
    bot_name: str | None = option(
        None, "The model's name in the transcript.", _CHAT,
        kind=TEXT, metavar="NAME", usual="Bot", settable=False,
    )  # fmt: skip
    system: str | None = option(
        None, "Text before the conversation, kept when old turns go.", _CHAT,
        kind=TEXT, settable=False,
    )  # fmt: skip
    template: str = option(
        AUTO, "Form in which the model sees the conversation: lines that begin with a name, or "
        "DialoGPT's.", _CHAT, kind=one_of((AUTO, "transcript", "dialogpt")),
        usual="auto: DialoGPT's if the model's config.json says so", settable=False,
    )  # fmt: skip
    session: Path | None = option(
        None, "Keep the conversation in FILE after each turn, and take it up again from there.",
        _CHAT, kind=FILE, usual="it is not kept", settable=False,
    )  # fmt: skip
    json: bool = option(
        False, "Print one JSON record per turn, not text.", REPORT, kind=SWITCH, settable=False
    )


@takes(
    ChatConfig, TextConfig, SamplingConfig, SeedConfig, GenerationConfig, ReportConfig, ModelConfig,
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
    from gpt2cli.commands.start_chat import begin
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result

    form, report = settings.make(ChatConfig), settings.make(ReportConfig)
    begin(form)  # what is wrong with a name is told before anything takes time
    with Notes(quiet=report.quiet) as notes, open_result(None) as writer:
        source = _open_source(notes)
        if not source.has_more():
            return  # nothing will be said, so no model is needed
        from gpt2cli.commands.start_chat import get_ready  # heavy: not for --help

        ready = get_ready(settings, form, listener=notes)
        notes.pause()
        view = _choose_view(ready, writer, as_records=form.json)
        if source.on_terminal:
            _greet(ready, notes)
        _run(ready, source, view, notes, writer, stats=report.stats)


def _open_source(notes: "Notes") -> "ChatInput":
    """Return where messages come from.

    Raises:
        UsageError: if the program was started without a stdin.
    """
    from gpt2cli.commands.chat_commands import complete
    from gpt2cli.store.memory import state_folder
    from gpt2cli.terminal.chat_input import open_input
    from gpt2cli.text_input import find_stdin

    stdin = find_stdin()
    if stdin is None:
        raise UsageError("expected a terminal or messages on stdin, which is closed")
    return open_input(stdin, complete, notes, history_file=state_folder() / "chat_history")


def _choose_view(ready: "ReadyChat", writer: "ResultWriter", *, as_records: bool) -> "ReplyView":
    from gpt2cli.terminal.replies import ReplyRecords, TextReplies

    if as_records:
        return ReplyRecords(writer, model=ready.model)
    return TextReplies(writer)


def _greet(ready: "ReadyChat", notes: "Notes") -> None:
    turns = len(ready.chat.conversation.turns)
    taken_up = f", turn {turns + 1} of the session" if turns else ""
    name, precision = ready.model.stored.name, ready.model.stored.folder.precision
    notes.note(
        f"{name} ({precision} on {ready.model.engine.device}){taken_up}; /help, Ctrl-D leaves"
    )


def _run(
    ready: "ReadyChat",
    source: "ChatInput",
    view: "ReplyView",
    notes: "Notes",
    writer: "ResultWriter",
    *,
    stats: bool,
) -> None:
    """Run the conversation to its end.

    Raises:
        Exit: if something that was read came to nothing, or after Ctrl-C where nobody types.
    """
    from gpt2cli.commands.dialogue import Dialogue

    dialogue = Dialogue(
        chat=ready.chat,
        model=ready.model,
        settings=ready.settings,
        session=ready.session,
        source=source,
        view=view,
        notes=notes,
        stats=stats,
        abandoned=writer.is_abandoned,
    )
    dialogue.run()
    if dialogue.interrupted:
        raise typer.Exit(exit_codes.INTERRUPTED)
    if dialogue.failed and not source.on_terminal:
        raise typer.Exit(exit_codes.FAILED)
