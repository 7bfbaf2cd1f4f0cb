"""From a conversation to the request of its next reply, and to its text."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpt2cli.config import AUTO, GenerationConfig, Overflow
from gpt2cli.conversations.config import OWN, FormConfig
from gpt2cli.conversations.context import Room, fit
from gpt2cli.conversations.conversation import Conversation
from gpt2cli.conversations.own_template import (
    PIP,
    OwnTemplate,
    find_lack,
    has_chat_template,
    load_chat_template,
)
from gpt2cli.conversations.templates import TEMPLATES, Template, choose_template
from gpt2cli.detokenizer import cut_begun
from gpt2cli.generation.interfaces import Finish
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import ModelFolder, ModelShape
from gpt2cli.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gpt2cli.conversations.sandbox import ChatTemplate

_ROOM_SHARE: Final = 4  # at most one part in four of the context is held free for the reply


def choose_form(
    wanted: str, conversation: Conversation, folder: ModelFolder, note: Callable[[str], object]
) -> str:
    """Return the form in which a model is to see a conversation."""
    if wanted != AUTO or conversation.template:
        return conversation.template if wanted == AUTO else wanted
    if has_chat_template(folder):
        lack = find_lack()
        if lack is None:
            return OWN
        note(f"the model's chat template is not used: that needs {lack} ({PIP})")
    return choose_template(folder.config)


def make_template(
    conversation: Conversation,
    tokenizer: Tokenizer,
    *,
    allow_special: bool,
    load_own: Callable[[], "ChatTemplate"],
) -> Template:
    """Return what writes a conversation in its form; `load_own` gives the model's own template.

    Raises:
        Gpt2Error: if the model cannot see it in that form.
    """
    special = allow_special
    if conversation.template == OWN:
        return OwnTemplate(conversation, tokenizer, allow_special=special, source=load_own())
    return TEMPLATES[conversation.template](conversation, tokenizer, allow_special=special)


@dataclass(frozen=True, slots=True)
class ChatForm:
    """The form in which a model sees what is said to it."""

    opening: Conversation  # in which nothing has been said yet: its names, and its form
    load_own: Callable[[], "ChatTemplate"]  # the model's own template

    def write(
        self, conversation: Conversation, tokenizer: Tokenizer, *, allow_special: bool
    ) -> Template:
        """Return what writes a conversation, as `make_template`."""
        return make_template(
            conversation, tokenizer, allow_special=allow_special, load_own=self.load_own
        )


def open_chat(form: FormConfig, folder: ModelFolder, note: Callable[[str], object]) -> ChatForm:
    """Return the form of a model's chats, as far as the options leave it open."""
    opening = Conversation(**form.names)  # type: ignore[arg-type]  # they are names
    opening = opening.in_form(choose_form(form.template, opening, folder, note))
    return ChatForm(opening, functools.cache(partial(load_chat_template, folder)))


def make_room(limits: GenerationConfig, n_positions: int) -> Room:
    """Return how many tokens must be free for a reply: all, if fewer would be refused."""
    free = limits.max_new_tokens
    if limits.overflow is not Overflow.ERROR:
        free = min(free, n_positions // _ROOM_SHARE)
    return Room(n_positions, free, slides=limits.overflow is Overflow.SLIDE)


def prepare_reply(
    request: Request, template: Template, tokenizer: Tokenizer, shape: ModelShape
) -> tuple[int, PreparedRequest]:
    """Prepare the request of a message, and return the number of the oldest turn that it sees.

    Raises:
        PromptError: if it cannot be encoded, or does not fit even alone.
    """
    conversation, asked = template.conversation, request.generation
    limits = replace(
        asked,
        stop=(*asked.stop, *template.stop),
        stop_token=(*asked.stop_token, *template.stop_ids),
        include_stop=False,
    )
    room = make_room(limits, shape.n_positions)
    first, prompt = fit(conversation, request.prompt, template, room)
    prepared = prepare(
        replace(request, generation=limits),
        tokenizer,
        shape,
        prompt_ids=prompt.ids,
        kept_tokens=len(template.begin()),
        stepped=prompt.stepped,
    )
    return first, prepared


class ReplyText:
    """A reply on its way: without the white space around it, and what begins its end."""

    def __init__(self, ends: Sequence[str]) -> None:
        """Begin with nothing; `ends`: the stop sequences of the conversation itself."""
        self._ends = ends
        self._held = ""  # what may be the white space at the end
        self.text = ""  # with the white space
        self.shown = ""

    def add(self, text: str, finish: Finish | None) -> str:
        """Take a piece of the completion, and return what is to be shown now."""
        if finish is not None and finish.stop_sequence is None:
            text = cut_begun(text, self._ends)
        self.text += text
        self._held += text if self.shown else text.lstrip()
        shown = self._held.rstrip()
        self._held = self._held[len(shown) :]
        self.shown += shown
        return shown
