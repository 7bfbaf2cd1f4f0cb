"""From options to a conversation that is ready to run."""

from dataclasses import dataclass, replace

from gpt2cli.chat import Chat, Conversation, SessionFile, choose_template
from gpt2cli.commands.chat_settings import ChatOptions
from gpt2cli.commands.options import (
    ChatFormOptions,
    LimitOptions,
    ModelOptions,
    SamplingOptions,
    TemplateChoice,
)
from gpt2cli.commands.start import load
from gpt2cli.loading import LoadedModel
from gpt2cli.store import Listener


@dataclass(frozen=True, slots=True)
class ReadyChat:
    """A conversation whose model is loaded."""

    model: LoadedModel
    chat: Chat
    options: ChatOptions
    session: SessionFile | None


def check(sampling: SamplingOptions, limits: LimitOptions, form: ChatFormOptions) -> None:
    """Check the options before anything takes time.

    Raises:
        UsageError: naming the option that is out of range.
    """
    ChatOptions(sampling, limits, {}).settle()
    _apply(form, Conversation())


def get_ready(
    *,
    sampling: SamplingOptions,
    limits: LimitOptions,
    model: ModelOptions,
    form: ChatFormOptions,
    listener: Listener,
) -> ReadyChat:
    """Load the model, and the conversation if there is one to go on with.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the session's file.
    """
    loaded = load(model, max_slots=1, listener=listener)
    session = None
    if form.session is not None:
        session = SessionFile(form.session, model=loaded.stored.name)
    before = session.read() if session else None
    conversation = _apply(form, before or Conversation())
    if session:
        session.write(conversation)  # what cannot be kept is told before anything is said
    options = ChatOptions(sampling, limits, loaded.stored.folder.generation_config)
    settings, _ = options.settle()
    template = form.template.value
    if form.template is TemplateChoice.AUTO:
        template = choose_template(loaded.stored.folder.config)
    chat = Chat(
        loaded.engine,
        loaded.tokenizer,
        loaded.sampler,
        template=template,
        settings=settings,
        conversation=conversation,
        allow_special=form.allow_special,
    )
    return ReadyChat(loaded, chat, options, session)


def _apply(form: ChatFormOptions, conversation: Conversation) -> Conversation:
    """Return the conversation with what the user gave of it; the turns stay."""
    was = conversation
    return replace(
        was,
        user_name=was.user_name if form.user_name is None else form.user_name,
        bot_name=was.bot_name if form.bot_name is None else form.bot_name,
        system=was.system if form.system is None else form.system,
    )
