"""From options to a conversation that is ready to run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpt2cli.chat import Chat, Conversation, SessionFile, choose_template
from gpt2cli.commands.chat_settings import make_chat_settings
from gpt2cli.config import AUTO, ModelConfig, TextConfig
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener

if TYPE_CHECKING:
    from gpt2cli.commands.chat import ChatConfig


@dataclass(frozen=True, slots=True)
class ReadyChat:
    """A conversation whose model is loaded."""

    model: LoadedModel
    chat: Chat
    settings: Settings
    session: SessionFile | None


def get_ready(settings: Settings, form: "ChatConfig", *, listener: Listener) -> ReadyChat:
    """Load the model, and the conversation if there is one to go on with.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the session's file.
    """
    loaded = load_model(settings.make(ModelConfig), max_slots=1, listener=listener)
    session = None
    if form.session is not None:
        session = SessionFile(form.session, model=loaded.stored.name)
    before = session.read() if session else None
    conversation = begin(form, before)
    if session:
        session.write(conversation)  # what cannot be kept is told before anything is said
    settings = settings.with_model(loaded.stored.folder.generation_config)
    template = form.template
    if template == AUTO:
        template = choose_template(loaded.stored.folder.config)
    chat = Chat(
        loaded.engine,
        loaded.tokenizer,
        loaded.sampler,
        template=template,
        settings=make_chat_settings(settings),
        conversation=conversation,
        allow_special=settings.make(TextConfig).allow_special,
    )
    return ReadyChat(loaded, chat, settings, session)


def begin(form: "ChatConfig", before: Conversation | None = None) -> Conversation:
    """Return the conversation with what the user gave of it; the turns stay.

    Raises:
        UsageError: if a name cannot stand before a line of the transcript.
    """
    was = before or Conversation()
    return replace(
        was,
        user_name=was.user_name if form.user_name is None else form.user_name,
        bot_name=was.bot_name if form.bot_name is None else form.bot_name,
        system=was.system if form.system is None else form.system,
    )
