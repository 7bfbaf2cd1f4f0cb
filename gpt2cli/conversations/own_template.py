"""The form that a model's makers give: the chat template among its tokenizer's files.

The whole conversation is written anew for each prompt, as the template may look at any part of it.
Ids stay all the same from turn to turn: what was drawn stands for the reply where the text of the
prompt before it, and the reply, begin the new text. A template that writes old turns in another way
is read as it writes them.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from export.small_files import ReadError, read_text
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.templates import Prompt, Template
from gpt2cli.errors import ModelError, PackageError, PromptError, UsageError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gpt2cli.conversations.sandbox import ChatTemplate

_FILE: Final = "chat_template.jinja"
_JINJA: Final = (3, 1, 6)  # before it templates could leave the sandbox
_NEEDED: Final = "jinja2 3.1.6 or newer"
PIP: Final = "pip install 'jinja2>=3.1.6'"
# Around a text that only looks like a special token; no characters, so no text has them.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_MARKED: Final = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)
_SHOWN: Final = Turn("Hi", "Well met", FinishReason.STOP, seed=0)  # how a turn is written
_NEXT: Final = "And then?"


def has_chat_template(folder: ModelFolder) -> bool:
    """Tell whether a model has a template of its own."""
    return _FILE in folder.files


def find_lack() -> str | None:
    """Return what templates need and is not installed, in words; None if they can be used."""
    if importlib.util.find_spec("jinja2") is None:
        return f"{_NEEDED}, which is not installed"
    found = importlib.metadata.version("jinja2")
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    return None if numbers >= _JINJA else f"{_NEEDED}; {found} is installed"


def load_chat_template(folder: ModelFolder) -> "ChatTemplate":
    """Return the template of a model.

    Raises:
        UsageError: if it has none.
        PackageError: if jinja2 is missing.
        ModelError: if its file is damaged.
        PromptError: if it is no template.
    """
    if not has_chat_template(folder):
        found = "a model without a chat template"
        raise UsageError(option="template", expected="transcript or dialogpt", found=found)
    if lack := find_lack():
        raise PackageError(f"the model's chat template needs {lack}", PIP)
    from gpt2cli.conversations.sandbox import ChatTemplate  # of the extra `template`

    try:
        source = read_text(folder.path / _FILE)
    except ReadError as error:
        raise ModelError(f"{folder.path / _FILE} {error}; export again") from error
    return ChatTemplate(source, folder.token_names)


class OwnTemplate(Template):
    """Turns as the model's own chat template writes them."""

    def __init__(
        self,
        conversation: Conversation,
        tokenizer: Tokenizer,
        *,
        allow_special: bool,
        source: "ChatTemplate",
    ) -> None:
        """Look how the template writes a turn: what follows a reply ends it.

        Raises:
            PromptError: if the template fails at that.
        """
        super().__init__(conversation, tokenizer, allow_special=allow_special)
        self._source = source
        self._look_alike = tokenizer.added_tokens_pattern
        shown = self._write([_SHOWN], _NEXT)
        found = self._find_reply(shown, [], _SHOWN)
        self._lead, self._asking = "", 0  # white space before a reply; where the next turn begins
        if found is not None:
            begin, self._asking = found
            self._lead = shown[begin : self._asking - len(_SHOWN.reply)]
            self.stop, self.stop_ids = self._find_ends(shown[self._asking :].partition(_NEXT)[0])

    def begin(self) -> list[int]:
        """Return the ids that all conversations begin with that have this system text."""
        return self._begin

    def ask(self, message: str, *, first: bool) -> list[int]:
        """Return the ids of a message; of a later one with those that close the turn before."""
        if first:
            return self._read(self._write([], message))[len(self._begin) :]
        return self._read(self._write([_SHOWN], message)[self._asking :], begins=False)

    def answer(self, reply: str) -> list[int]:
        """Return the ids of a reply."""
        return self.tokenizer.encode_text(f"{self._lead}{reply}") if reply else []

    def history(self, turns: Sequence[Turn], *, first: int) -> Prompt:
        """Return what the template writes of turns alone; of none, how it begins."""
        prompt = Prompt()
        prompt.add(self._begin)
        return self._compose(self._write(turns), turns, first=first) if turns else prompt

    def prompt(self, turns: Sequence[Turn], message: str, *, first: int) -> Prompt:
        """Return all turns and a message, up to where its reply begins."""
        return self._compose(self._write(turns, message), turns, first=first)

    def measure(self, turn: Turn) -> int:
        """Return how many ids a turn adds to a conversation."""
        sizes = [len(self.prompt(seen, _NEXT, first=0).ids) for seen in ([_SHOWN, turn], [_SHOWN])]
        return sizes[0] - sizes[1]

    @cached_property
    def _begin(self) -> list[int]:
        one, other = (self._read(self._write([], text)) for text in (_SHOWN.message, _NEXT))
        same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        return [token_id for token_id, _ in same]

    def _compose(self, whole: str, turns: Sequence[Turn], *, first: int) -> Prompt:
        """Return the ids of a written conversation, those of its replies as they were drawn."""
        prompt, at = Prompt(), 0
        for number, turn in enumerate(turns):
            found = self._find_reply(whole, turns[:number], turn)
            if found is None:  # the template writes it in another way now
                continue
            begin, end = found
            prompt.add(self._read(whole[at:begin], begins=at == 0))
            prompt.add(self.reply_ids(turn), drawn=turn.drawn if turn.first == first else 0)
            at = end
        prompt.add(self._read(whole[at:], begins=at == 0))
        return prompt

    def _find_reply(self, whole: str, before: Sequence[Turn], turn: Turn) -> tuple[int, int] | None:
        """Return where a reply begins and ends, with the white space that the template adds."""
        head, reply = self._write(before, turn.message), self._mark(turn.reply)
        if not whole.startswith(head):
            return None
        rest = whole[len(head) :]
        gap = len(rest) - len(rest.lstrip()) if reply else 0
        end = len(head) + gap + len(reply)
        return (len(head), end) if rest.startswith(reply, gap) else None

    def _write(self, turns: Sequence[Turn], message: str | None = None) -> str:
        """Return a conversation as text; with a message, up to where its reply begins."""
        said = [("system", self.conversation.system)] if self.conversation.system else []
        for turn in turns:
            said += [("user", turn.message), ("assistant", turn.reply)]
        said += [] if message is None else [("user", message)]
        messages = [(role, self._mark(text)) for role, text in said]
        return self._source.render(messages, prompting=message is not None)

    def _mark(self, text: str) -> str:
        """Return a text in which what looks like a special token is marked as text."""
        if _OPEN in text or _CLOSE in text:
            raise PromptError("the text holds U+FDD0 or U+FDD1, which are no characters")
        if self._allow_special or self._look_alike is None:
            return text
        return self._look_alike.sub(lambda found: f"{_OPEN}{found[0]}{_CLOSE}", text)

    def _read(self, text: str, *, begins: bool = True) -> list[int]:
        """Return the ids of what the template wrote: special tokens where it wrote them."""
        ids: list[int] = []
        for number, piece in enumerate(_MARKED.split(text)):
            ids += self.tokenizer.encode_text(
                piece, allow_special=number % 2 == 0, begins=begins and number == 0
            )
        return ids

    def _find_ends(self, between: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the text and the token that end a reply, from what precedes the next message."""
        found = self._look_alike.search(between) if self._look_alike else None
        text = between[: found.start()] if found else between
        stop_ids = self.tokenizer.encode_text(found[0], allow_special=True) if found else []
        new = tuple(i for i in stop_ids if i not in self.tokenizer.eos_token_ids)
        return (text.rstrip(),) if text.strip() else (), new
