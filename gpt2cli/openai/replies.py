"""The answer to a request for a reply in a chat, in OpenAI's form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpt2cli.conversations.replies import ReplyText
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.loading import LoadedModel
from gpt2cli.openai.answers import Answer, Choice
from gpt2cli.openai.chatting import ChatAsk
from gpt2cli.openai.logprobs import TokenList
from gpt2cli.openai.pieces import Key, Piece
from gpt2cli.recorded import describe_context


@dataclass(slots=True)
class Reply(Choice):
    """A reply on its way to the client, without the white space around it."""

    reply: ReplyText = field(kw_only=True)
    length: int = 0  # of all that was made
    begun: bool = False  # whether anything was taken

    def add(self, piece: Piece) -> None:
        """Add what was made."""
        self.length += len(piece.text)
        self.text += self.reply.add(piece.text, piece.finish)
        self.completion = self.text
        self.note(piece)

    def take(self, *, whole: bool) -> dict[str, Any]:
        """Return the text and tokens since the last time; the first piece says who speaks."""
        speaker = {} if self.begun else {"role": "assistant"}
        self.begun = True
        text, tokens = self.take_text(), self.tokens
        listed = None if tokens is None else tokens.take_content(self.length, rest=self.rest)
        said = {**speaker, "content": text}
        return {"message" if whole else "delta": said, "logprobs": listed}


class ChatAnswer(Answer):
    """All that is sent in answer to a request for a reply."""

    prefix = "chatcmpl"
    whole_kind = "chat.completion"
    piece_kind = "chat.completion.chunk"

    def __init__(
        self, ask: ChatAsk, model: LoadedModel, *, name: str = "", created: int | None = None
    ) -> None:
        super().__init__(ask, model, name=name, created=created)
        self._ends: Sequence[str] = ask.ends
        self._lists = None if ask.form.logprobs is None else model.tokenizer

    def begin(self, key: Key) -> Choice:
        """Return a reply of which nothing has been made."""
        tokens = None if self._lists is None else TokenList(self._lists)
        return Reply("", tokens=tokens, reply=ReplyText(self._ends))

    def describe_context(self, prepared: PreparedRequest) -> Mapping[str, Any] | None:
        """Return the tokens that the model saw."""
        return describe_context(prepared, self._ends)
