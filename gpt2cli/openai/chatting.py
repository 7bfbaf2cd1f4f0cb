"""What the body of a request for a reply in a chat asks for: its messages become one prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Protocol

from gpt2cli.config import GenerationConfig, SamplingConfig, SeedConfig, TextConfig
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.replies import ChatForm, prepare_reply
from gpt2cli.declarations import options_of
from gpt2cli.errors import Gpt2Error, shorten
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.requests import choose_seed, make_request
from gpt2cli.openai.asking import (
    Ask,
    Form,
    Host,
    check_count,
    check_model_field,
    read_usage_wanted,
)
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.fields import MOST_CHARACTERS, SWITCH, Fields
from gpt2cli.prompt_options import OPTIONS
from gpt2cli.settings import Given

_NAMES: Final[Mapping[str, str]] = {"max_new_tokens": "max_tokens", "samples": "n"}
_NEWER: Final[Mapping[str, str]] = {"max_new_tokens": "max_completion_tokens", "samples": "n"}
_GROUPS: Final = (SamplingConfig, SeedConfig, GenerationConfig, TextConfig)
_OPTIONS: Final = {o.field for group in _GROUPS for o in options_of(group)} | {"samples"}
_KNOWN: Final = (
    *("messages", "model", "stream", "stream_options", "user", "logprobs", "top_logprobs"),
)
USUAL_TOKENS: Final = 128  # of a reply, as in `gpt2 chat`
_MOST_ALTERNATIVES: Final = 20
_SYSTEM: Final = ("system", "developer")


class ChatHost(Host, Protocol):
    """What answers a request for a reply."""

    @property
    def chat(self) -> ChatForm:
        """The form in which the model sees what is said to it."""
        ...

    @property
    def usual_tokens(self) -> int:
        """How many a reply has at most where nobody says anything."""
        ...


@dataclass(frozen=True, slots=True)
class ChatAsk(Ask):
    """What a request for a reply asks for."""

    ends: Sequence[str] = ()  # the stop sequences of the conversation itself


def read_chat_ask(body: Mapping[str, Any], host: ChatHost) -> ChatAsk:
    """Read the fields of a request, and prepare its prompt.

    Raises:
        Fault: naming the field that is wrong.
    """
    fields = Fields(body, _NEWER if "max_completion_tokens" in body else _NAMES)
    fields.refuse_unknown(_KNOWN, options=_OPTIONS)
    check_model_field(fields, host)
    conversation, message = _read_messages(fields.given.get("messages"), host.chat.opening)
    own = dict(Fields(_without_logprobs(body), fields.names).read_options())
    logprobs, stream = _read_logprobs(fields), fields.read("stream", bool, False, SWITCH)
    if logprobs is not None:
        own["logprobs"] = Given(logprobs)
    choices = own["samples"].value if "samples" in own else 1
    check_count(choices, "n")
    form = Form(
        choices, choices, logprobs,
        stream=stream, with_usage=read_usage_wanted(fields, stream=stream),
    )  # fmt: skip
    settings = host.settings.without(OPTIONS.keys() - _OPTIONS)
    if "max_new_tokens" not in settings.given:
        settings = settings.over({"max_new_tokens": Given(host.usual_tokens)})
    settings = settings.over(own)
    try:
        request = make_request(settings, message, seed=choose_seed(settings))
        host.check_size(request)
        template = host.chat.write(
            conversation, host.tokenizer, allow_special=request.allow_special
        )
        _, prepared = prepare_reply(request, template, host.tokenizer, host.shape)
    except Gpt2Error as error:
        raise _name_messages(explain(error, fields.spelling)) from error
    return ChatAsk([prepared], False, form, fields.spelling, ends=template.stop)


def _without_logprobs(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields without the one that means another thing here than as an option."""
    return {name: value for name, value in body.items() if name != "logprobs"}


def _name_messages(fault: Fault) -> Fault:
    """Return the fault of a prompt as one of the messages."""
    param = "messages" if fault.param == "prompt" else fault.param
    return Fault(fault.status, str(fault), param=param, code=fault.code)


def _read_logprobs(fields: Fields) -> int | None:
    wanted = fields.read("logprobs", bool, False, SWITCH)
    top = fields.read("top_logprobs", int, 0, "a whole number")
    if not 0 <= top <= _MOST_ALTERNATIVES or (top and not wanted):
        expected = f"0 to {_MOST_ALTERNATIVES}, with logprobs true"
        fault = f"top_logprobs: expected {expected}, found {top}"
        raise Fault(400, fault, param="top_logprobs")
    return top if wanted else None


def _read_messages(given: Any, opening: Conversation) -> tuple[Conversation, str]:
    """Return what was said before, and the last message."""
    if not isinstance(given, list) or not given:
        raise _refuse("a list of messages", given)
    said = [_read_message(message) for message in given]
    if sum(len(text) for _, text in said) > MOST_CHARACTERS:
        raise _refuse(f"at most {MOST_CHARACTERS} characters", "more")
    joined = [
        (role, "\n".join(text for _, text in run)) for role, run in groupby(said, lambda m: m[0])
    ]
    system = joined.pop(0)[1] if joined[0][0] == "system" else ""
    if not joined or joined[-1][0] != "user" or any(role == "system" for role, _ in joined):
        roles = ", ".join(role for role, _ in said)
        raise _refuse("system messages first, if any, and one of the user at the end", roles)
    *before, (_, message) = joined
    turns, asked = [], ""
    for role, text in before:
        if role == "user":
            asked = text.strip()
        else:
            turns.append(Turn(asked, text.strip(), FinishReason.STOP, seed=0))
            asked = ""
    return replace(opening, system=system, turns=tuple(turns)), message.strip()


def _read_message(message: Any) -> tuple[str, str]:
    """Return who speaks, and the text."""
    if not isinstance(message, dict):
        raise _refuse('messages as {"role": …, "content": …}', message)
    role = "system" if message.get("role") in _SYSTEM else message.get("role")
    if role not in ("system", "user", "assistant"):
        raise _refuse("system, user or assistant as role", message.get("role"))
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    read = [text for text in texts if isinstance(text, str)]
    if len(read) < len(texts):
        raise _refuse("a text as content", content)
    return role, "".join(read)


def _refuse(expected: str, found: Any) -> Fault:
    shown = found if isinstance(found, str) else repr(found)
    fault = f"messages: expected {expected}, found {shorten(shown)}"
    return Fault(400, fault, param="messages")
