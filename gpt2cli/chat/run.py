"""Runs a chat: opens the input, the model and the conversation, and reads to the end."""

import os
import sys
from dataclasses import replace
from functools import partial
from typing import Any, cast

from gpt2cli.chat.chat import Chat
from gpt2cli.chat.commands import run_command
from gpt2cli.chat.config import ChatConfig
from gpt2cli.chat.dialogue import Dialogue, ReplyView
from gpt2cli.chat.input import ChatInput, LineInput
from gpt2cli.config import DraftConfig, ModelConfig, ReportConfig
from gpt2cli.conversations.config import FormConfig
from gpt2cli.conversations.conversation import Conversation, SessionFile, tell_replies_differ
from gpt2cli.conversations.own_template import load_chat_template
from gpt2cli.conversations.replies import choose_form
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.errors import ExitCode, Gpt2Error, OutputError, UsageError
from gpt2cli.settings import Settings
from gpt2cli.store.memory import state_folder
from gpt2cli.terminal.notes import Notes, end_line
from gpt2cli.terminal.result import ResultWriter, open_result
from gpt2cli.text_input import find_stdin


def run_chat(settings: Settings) -> int:
    """Talk until the input ends; return the exit code.

    1: some input failed. 130: Ctrl-C, when the input is no terminal.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the session's file.
    """
    form, report = settings.make(ChatConfig), settings.make(ReportConfig)
    _begin(settings, Conversation())  # a bad name is an error before anything takes time
    with Notes(quiet=report.quiet) as notes, open_result(None) as writer:
        source = open_input(find_stdin(), notes)
        if not source.has_more():
            return ExitCode.DONE  # nothing will be said, so no model is needed
        dialogue = _open_dialogue(settings, form, source, notes, writer)
        notes.pause()
        if source.on_terminal:
            _greet(dialogue)
        talk(dialogue)
    if dialogue.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if dialogue.failed and not source.on_terminal else ExitCode.DONE


def open_input(stdin: int | None, notes: Notes) -> ChatInput:
    """Return the prompt line where a person types and sees it, else the lines of the file."""
    if stdin is None:
        raise UsageError("expected a terminal or messages on stdin, which is closed")
    # Where stdout and stderr both go elsewhere no prompt could be seen.
    if not os.isatty(stdin) or not any(map(_is_terminal, (sys.stdout, sys.stderr))):
        return LineInput(stdin)
    from gpt2cli.chat.prompt import PromptInput  # heavy: only where a person types

    return PromptInput(stdin, notes, history_file=state_folder() / "chat_history")


def talk(dialogue: Dialogue) -> None:
    """Read the input to its end: messages go to the model, commands are run.

    Raises:
        OutputError: if replies cannot be written.
        BrokenPipeError: if nobody reads them any more.
        KeyboardInterrupt: where nobody types.
    """
    while not (dialogue.ended or dialogue.interrupted or dialogue.abandoned()):
        try:
            _take_entry(dialogue)
        except OutputError:
            raise
        except Gpt2Error as error:
            dialogue.tell_failure(error)
        except KeyboardInterrupt:  # at a terminal Ctrl-C ends what is running, not the chat
            if not dialogue.source.on_terminal:
                raise
            end_line()


def _take_entry(dialogue: Dialogue) -> None:
    entry = dialogue.source.read()
    if entry is None:
        dialogue.ended = True
    elif entry.is_command:
        run_command(dialogue, entry.text)
    else:
        dialogue.reply(dialogue.chat.ask(entry.text))


def _open_dialogue(
    settings: Settings, form: ChatConfig, source: ChatInput, notes: Notes, writer: ResultWriter
) -> Dialogue:
    """Load the model, and the conversation of the session if there is one."""
    model = load_with_draft(
        settings.make(ModelConfig),
        settings.make(DraftConfig),
        max_slots=1,
        verifying=form.session is not None,  # it steps through earlier replies, eight ids at a time
        listener=notes,
    )
    conversation, session = Conversation(), None
    if form.session is not None:
        session = SessionFile(form.session, model=model.stored.name)
        conversation = session.read() or conversation
    conversation = _begin(settings, conversation)
    settings = settings.with_model(model.stored.folder.generation_config)
    wanted, folder = settings.make(FormConfig).template, model.stored.folder
    template = choose_form(wanted, conversation, folder, notes.note)
    chat = Chat(
        model.engine,
        model.tokenizer,
        model.sampler,
        settings=settings,
        conversation=conversation.in_form(template),
        load_template=partial(load_chat_template, folder),
        drafting=model.drafting,
    )
    if session is not None:
        session.write(chat.conversation)  # so that a file that cannot be written is an error now
        if chat.known_by_text:
            notes.note(tell_replies_differ(session.path))
    return Dialogue(
        chat=chat,
        model=model,
        session=session,
        source=source,
        view=ReplyView(writer, model, as_records=form.json),
        notes=notes,
        stats=settings.make(ReportConfig).stats,
        abandoned=writer.is_abandoned,
    )


def _begin(settings: Settings, before: Conversation) -> Conversation:
    """Return the conversation with the system text and names that the user gave; the turns stay.

    Raises:
        UsageError: if a name cannot stand before a line of the transcript.
    """
    names, system = settings.make(FormConfig).names, settings.make(ChatConfig).system
    conversation = replace(before, **cast(dict[str, Any], names))
    return conversation if system is None else conversation.under(system)


def _greet(dialogue: Dialogue) -> None:
    turns, stored = len(dialogue.chat.conversation.turns), dialogue.model.stored
    taken_up = f", turn {turns + 1} of the session" if turns else ""
    runs_on = f"{stored.folder.precision} on {dialogue.model.engine.device}"
    dialogue.notes.note(f"{stored.name} ({runs_on}){taken_up}; /help, Ctrl-D leaves")


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()
