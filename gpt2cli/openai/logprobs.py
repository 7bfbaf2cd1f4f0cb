"""Tokens with log-probabilities, in the forms that OpenAI's completions and chats have."""

import codecs
from collections.abc import Iterable
from typing import Any

from gpt2cli.sampling.logprobs import Alternative, TokenLogprob
from gpt2cli.tokenizer import Tokenizer


class TokenList:
    """The tokens of a choice's text. An offset is that of the character that a token begins in."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = 0  # of the text, its last character whole
        self._taken = 0
        self._tokens: list[TokenLogprob] = []
        self._offsets: list[int] = []

    def add_prompt(self, tokens: Iterable[TokenLogprob], text: str) -> None:
        """Add the tokens of a prompt, special ones by name, before any others."""
        for token in tokens:
            self._add(token, self._tokenizer.spell(token.token_id))
        self._decoder.reset()
        self._length = len(text)

    def add(self, tokens: Iterable[TokenLogprob]) -> None:
        """Add tokens of the completion."""
        for token in tokens:
            self._add(token, self._tokenizer.token_bytes(token.token_id))

    def _add(self, token: TokenLogprob, shown: bytes) -> None:
        self._tokens.append(token)
        self._offsets.append(self._length)
        self._length += len(self._decoder.decode(shown))

    def take(self, length: int, *, rest: bool) -> dict[str, Any]:
        """Return the tokens since the last time that begin in a text of this length, or the rest.

        Those that a stop sequence has cut off begin in no text.
        """
        taken = self._take(length, rest=rest)
        tokens = self._tokens[taken]
        return {
            "tokens": [self._spell(token.token_id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [self._list_alternatives(token) for token in tokens],
            "text_offset": self._offsets[taken],
        }

    def take_content(self, length: int, *, rest: bool) -> dict[str, Any]:
        """Do as `take`, in the form that chats have."""
        taken = self._take(length, rest=rest)
        return {"content": [self._describe(token) for token in self._tokens[taken]]}

    def _take(self, length: int, *, rest: bool) -> slice:
        first = end = self._taken
        while end < len(self._tokens) and (rest or self._offsets[end] < length):
            end += 1
        self._taken = end
        return slice(first, end)

    def _describe(self, token: TokenLogprob) -> dict[str, Any]:
        others = [self._describe_one(one) for one in token.alternatives]
        return {**self._describe_one(token), "top_logprobs": others}

    def _describe_one(self, token: TokenLogprob | Alternative) -> dict[str, Any]:
        piece = self._tokenizer.spell(token.token_id)
        return {"token": spell_token(piece), "logprob": token.logprob, "bytes": list(piece)}

    def _list_alternatives(self, token: TokenLogprob) -> dict[str, float] | None:
        """Return the likeliest tokens and the token itself; None where nothing stands before it."""
        if token.logprob is None:
            return None
        listed = {self._spell(other.token_id): other.logprob for other in token.alternatives}
        return {**listed, self._spell(token.token_id): token.logprob}

    def _spell(self, token_id: int) -> str:
        return spell_token(self._tokenizer.spell(token_id))


def spell_token(piece: bytes) -> str:
    r"""Return a token's text; one that is no UTF-8 by itself as bytes:\xf0\x9f, as OpenAI does."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(rf"\x{byte:02x}" for byte in piece)
