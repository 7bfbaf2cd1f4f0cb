"""The answer to a request for completions, whole or piece by piece, in OpenAI's form."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.loading import LoadedModel
from gpt2cli.openai.asking import Ask
from gpt2cli.openai.faults import explain
from gpt2cli.openai.logprobs import TokenList
from gpt2cli.openai.pieces import Key, Piece, Scores
from gpt2cli.recorded import describe_context
from gpt2cli.records import make_record
from gpt2cli.sampling.logprobs import TokenLogprob

# OpenAI's words: all other ends are limits too.
_REASONS: Final = {FinishReason.STOP: "stop"}
_LENGTH: Final = "length"


@dataclass(slots=True)
class Choice:
    """A completion on its way to the client."""

    text: str  # with the prompt, if that is echoed
    completion: str = ""
    tokens: TokenList | None = None  # None: no logprobs are wanted
    scores: list[TokenLogprob] = field(default_factory=list)  # of the completion
    finish: Finish | None = None
    shown: int = 0  # how much of the text

    def add(self, piece: Piece) -> None:
        """Add what was made."""
        self.text += piece.text
        self.completion += piece.text
        self.note(piece)

    def note(self, piece: Piece) -> None:
        """Take note of what was made beside its text."""
        self.scores += piece.tokens
        self.finish = piece.finish
        if self.tokens is not None:
            self.tokens.add(piece.tokens)

    def take(self, *, whole: bool) -> dict[str, Any]:
        """Return the text and tokens since the last time; `whole`: that is all of them."""
        listed = None if self.tokens is None else self.tokens.take(len(self.text), rest=self.rest)
        return {"text": self.take_text(), "logprobs": listed}

    def take_text(self) -> str:
        """Return the text since the last time."""
        text, self.shown = self.text[self.shown :], len(self.text)
        return text

    @property
    def rest(self) -> bool:
        """Whether it has ended, and all of its tokens belong to its text."""
        return self.finish is not None and self.finish.stop_sequence is None

    @property
    def mean_logprob(self) -> float:
        """By which the best of several is found: OpenAI's, per token."""
        found = [score.logprob for score in self.scores if score.logprob is not None]
        return sum(found) / len(found) if found else 0.0


class Answer:
    """All that is sent in answer to a request for completions."""

    prefix = "cmpl"
    whole_kind = piece_kind = "text_completion"

    def __init__(
        self, ask: Ask, model: LoadedModel, *, name: str = "", created: int | None = None
    ) -> None:
        """`name`: what tells it from other answers (empty: a random one); `created`: now."""
        self._ask = ask
        self._model = model
        self._choices: dict[Key, Choice] = {}
        self._scores: dict[int, Sequence[TokenLogprob]] = {}
        self._head = {
            "id": f"{self.prefix}-{name or uuid.uuid4().hex}",
            "object": self.piece_kind if ask.form.stream else self.whole_kind,
            "created": int(time.time()) if created is None else created,
            "model": model.stored.name,
            "system_fingerprint": model.stored.folder.fingerprint,
        }

    def add(self, scores: Iterable[Scores], pieces: Iterable[Piece]) -> Sequence[Key]:
        """Add what was made; return which choices that concerns.

        Raises:
            Fault: if the options of a request leave nothing to choose.
        """
        self._scores |= {one.number: one.scores for one in scores}
        changed = []
        for piece in pieces:
            if piece.key not in self._choices:
                self._choices[piece.key] = self.begin(piece.key)
            choice = self._choices[piece.key]
            choice.add(piece)
            if piece.finish is not None and piece.finish.error is not None:
                raise explain(piece.finish.error, self._ask.names)
            changed.append(piece.key)
        return changed

    def take(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Return the next piece of a stream, with what these choices have more."""
        choices = [self._describe(key, self._place(key)) for key in keys]
        return {**self._head, "choices": choices, **self._no_usage}

    def finish(self) -> dict[str, Any]:
        """Return the whole answer."""
        form, choices = self._ask.form, []
        for number in range(len(self._ask.prompts)):
            keys = [(number, sample) for sample in range(form.best_of)]
            if form.best_of > form.choices:
                keys.sort(key=lambda key: -self._choices[key].mean_logprob)
            choices += keys[: form.choices]
        described = [self._describe(key, index) for index, key in enumerate(choices)]
        return {**self._head, "choices": described, "usage": self.usage}

    @property
    def last(self) -> dict[str, Any] | None:
        """What ends a stream after the last piece: the usage, if it is wanted."""
        if not self._ask.form.with_usage:
            return None
        return {**self._head, "choices": [], "usage": self.usage}

    @property
    def usage(self) -> dict[str, int]:
        """How many tokens were read and made."""
        finishes = {key: c.finish for key, c in self._choices.items() if c.finish is not None}
        prompt = sum(one.prompt_tokens for key, one in finishes.items() if key[1] == 0)
        made = sum(one.completion_tokens for one in finishes.values())
        told = {"prompt_tokens": prompt, "completion_tokens": made}
        return {**told, "total_tokens": prompt + made}

    @property
    def _no_usage(self) -> Mapping[str, None]:
        return {"usage": None} if self._ask.form.with_usage else {}

    def begin(self, key: Key) -> Choice:
        """Return a choice of which nothing has been made."""
        form, tokenizer = self._ask.form, self._model.tokenizer
        tokens = None if form.logprobs is None else TokenList(tokenizer)
        text = self._ask.prompts[key[0]].request.prompt if form.echo else ""
        if tokens is not None and form.echo:
            tokens.add_prompt(self._find_visible(key[0]), text)
        return Choice(text, tokens=tokens)

    def _find_visible(self, number: int) -> Sequence[TokenLogprob]:
        """Return the scores of a prompt without those of tokens that its text does not have."""
        tokenizer, scores = self._model.tokenizer, self._scores[number]
        if self._ask.by_ids:
            return scores
        empty = not self._ask.prompts[number].request.prompt
        return scores[len(scores) if empty else len(tokenizer.start_ids) :]

    def _place(self, key: Key) -> int:
        return key[0] * self._ask.form.choices + key[1]

    def _describe(self, key: Key, index: int) -> dict[str, Any]:
        choice = self._choices[key]
        whole = not self._ask.form.stream
        described = {"index": index, **choice.take(whole=whole), "finish_reason": None}
        if choice.finish is not None:
            request = self._ask.prompts[key[0]].request
            described["finish_reason"] = _REASONS.get(choice.finish.reason, _LENGTH)
            described |= {"seed": request.seed, "gpt2": self._record(key, choice, choice.finish)}
        return described

    def _record(self, key: Key, choice: Choice, finish: Finish) -> dict[str, Any]:
        """Return the record of a choice, which `gpt2 replay` takes."""
        prepared = self._ask.prompts[key[0]]
        if self._ask.form.logprobs is None:
            finish = replace(finish, logprobs=None)
        return make_record(
            prepared.request,
            sample=key[1],
            completion=choice.completion,
            finish=finish,
            model=self._model,
            context=self.describe_context(prepared),
        )

    def describe_context(self, prepared: PreparedRequest) -> Mapping[str, Any] | None:
        """Return what the model saw, for the record, where that is not the prompt alone."""
        return describe_context(prepared, None) if self._ask.by_ids else None
