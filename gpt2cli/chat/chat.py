"""Runs a conversation: each message becomes a prompt, each completion a reply."""

import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpt2cli.config import GenerationConfig, SamplingConfig, SeedConfig, TextConfig
from gpt2cli.conversations.context import (
    Room,
    check_system,
    cut,
    ids_that_spell,
    see,
    settle_replies,
)
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.replies import ReplyText, make_room, make_template, prepare_reply
from gpt2cli.conversations.templates import Template
from gpt2cli.errors import UsageError
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.interfaces import Counts, Finish, FinishReason, LogitsEngine
from gpt2cli.generation.loop import generate
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.requests import (
    PreparedRequest,
    Request,
    find_bans,
    find_biases,
    make_request,
)
from gpt2cli.sampling.random import draw_seed, seed_of
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.settings import Settings
from gpt2cli.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gpt2cli.conversations.sandbox import ChatTemplate


@dataclass(slots=True)
class Exchange:
    """A message whose prompt fits, on its way to its reply."""

    prepared: PreparedRequest
    before: Conversation  # without this message
    first: int  # the number of the oldest turn that its prompt has
    seen_ids: Sequence[int]  # of the prompt, what the model sees
    ends: Sequence[str]  # the stop sequences of the conversation itself
    counts: Counts = field(default_factory=Counts)
    finish: Finish | None = None
    reply: str = ""

    @property
    def request(self) -> Request:
        """The request; its prompt is the message alone."""
        return self.prepared.request

    @property
    def dropped(self) -> int:
        """How many turns the model saw until now and no longer sees."""
        return self.first - self.before.first


class Chat:
    """One conversation with a model; the KV cache is kept between its turns."""

    def __init__(
        self,
        engine: LogitsEngine,
        tokenizer: Tokenizer,
        sampler: Sampler,
        *,
        settings: Settings,
        conversation: Conversation,
        load_template: Callable[[], "ChatTemplate"],
        drafting: Drafting | None = None,
    ) -> None:
        """Begin a conversation that tells its form. Without a seed each reply has a random one.

        `load_template` gives the model's own template, or raises.

        Raises:
            UsageError: if the model cannot be used with the template or with the settings.
            Gpt2Error: if its own template cannot be used.
        """
        self._engine = engine
        self._tokenizer = tokenizer
        self._sampler = sampler
        self._allow_special = settings.make(TextConfig).allow_special
        self._prompt_cache = PromptCache()
        self._drafting = drafting
        self._load_template = functools.cache(load_template)
        self._seeded: int | None = 0  # the turn that gets the seed as set; None: the next turn
        self.conversation = conversation
        self.known_by_text = self.take_up(conversation)
        self.change_settings(settings)

    def take_up(self, conversation: Conversation) -> int:
        """Go on with a conversation that was kept; return how many replies it has as text only.

        What follows these may differ from what followed them once, as their tokens may.

        Raises:
            Gpt2Error: if the model cannot see it in its form.
        """
        if not conversation.template:
            conversation = conversation.in_form(self.conversation.template)
        template = self._make_template(conversation)
        self.conversation, count = settle_replies(conversation, template)
        return count

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from the next reply on.

        Raises:
            UsageError: if one means nothing in the model's vocabulary; then the old settings stay.
        """
        sampling, size = settings.make(SamplingConfig), self._engine.shape.vocab_size
        find_biases(sampling, self._tokenizer, vocab_size=size, allow_special=self._allow_special)
        find_bans(sampling, self._tokenizer, vocab_size=size)
        self.settings = settings

    def change_system(self, text: str) -> None:
        """Put another text before the conversation, from the next reply on; none if it is empty.

        Raises:
            PromptError: if it cannot be encoded or leaves no room; then the old text stays.
        """
        conversation = self.conversation.under(text)
        check_system(self._make_template(conversation), self._make_room())
        self.conversation = conversation

    def restart_seed(self) -> None:
        """Let the next reply have the seed itself, and those after it count up from there.

        Otherwise that is the first turn of the conversation, or an earlier one that came next.
        """
        self._seeded = None

    @property
    def n_positions(self) -> int:
        """How many tokens the model can see."""
        return self._engine.shape.n_positions

    def context(self) -> tuple[str, int]:
        """Return the text that the model sees before the next message, and its number of tokens."""
        template = self._make_template(self.conversation)
        ids = see(self.conversation, template, self._make_room())
        return self._tokenizer.show(ids), len(ids)

    def ask(self, message: str) -> Exchange:
        """Prepare the prompt of a message.

        Raises:
            PromptError: if it cannot be encoded, or does not fit even alone.
        """
        return self._prepare(self.conversation, message.strip())

    def ask_again(self, message: str | None = None) -> Exchange:
        """Prepare the last turn anew: with the seed that was set, or another random one.

        `message` takes the place of what was said.

        Raises:
            UsageError: if there is no turn yet.
        """
        if not self.conversation.turns:
            raise UsageError("nothing has been said yet")
        if message is None:
            message = self.conversation.turns[-1].message
        return self._prepare(self.conversation.take_back(), message.strip())

    def undo(self) -> Turn:
        """Take the last turn back and return it.

        Raises:
            UsageError: if there is none.
        """
        if not self.conversation.turns:
            raise UsageError("nothing has been said yet")
        turn = self.conversation.turns[-1]
        self.conversation = self.conversation.take_back()
        return turn

    def answer(
        self, exchange: Exchange, interrupted: Callable[[], bool]
    ) -> Generator[str, None, None]:
        """Yield the reply as it is made, without white space around it; then it becomes a turn.

        Once `interrupted` says so the reply ends with what it has, as it does when the generator is
        closed. If nothing was made by then, the conversation stays as it was.
        """
        chunks = generate(
            self._engine,
            self._tokenizer,
            self._sampler,
            [exchange.prepared],
            counts=exchange.counts,
            interrupted=interrupted,
            prompt_cache=self._prompt_cache,
            drafting=self._drafting,
        )
        reply = ReplyText(exchange.ends)
        try:
            for chunk in chunks:
                exchange.finish = chunk.finish
                shown = reply.add(chunk.text, chunk.finish)
                exchange.reply = reply.shown
                if shown:
                    yield shown
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            if exchange.finish is None and exchange.reply:  # what was shown is kept
                chunks.close()
                exchange.finish = self._cut_short(exchange)
            raise
        finally:
            if exchange.finish is not None:
                self._add_turn(exchange, reply.text.rstrip())

    def _prepare(self, conversation: Conversation, message: str) -> Exchange:
        template = self._make_template(conversation)
        number = len(conversation.turns)
        seed = self._choose_seed(number)
        request = make_request(self.settings, message, seed=seed, index=number)
        first, prepared = prepare_reply(request, template, self._tokenizer, self._engine.shape)
        seen_ids = cut([*prepared.prompt_ids], template, self._make_room())
        return Exchange(prepared, conversation, first, seen_ids, template.stop)

    def _make_room(self) -> Room:
        return make_room(self.settings.make(GenerationConfig), self.n_positions)

    def _cut_short(self, exchange: Exchange) -> Finish:
        """Return the finish of a reply that was cut short."""
        prompt_tokens, seen_ids = len(exchange.prepared.prompt_ids), exchange.seen_ids
        return Finish(
            reason=FinishReason.INTERRUPTED,
            stop_sequence=None,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(self._prompt_cache.completion_of(seen_ids) or ()),
            truncated_prompt_tokens=prompt_tokens - len(seen_ids),
        )

    def _add_turn(self, exchange: Exchange, text: str) -> None:
        assert exchange.finish is not None
        drawn = self._prompt_cache.completion_of(exchange.seen_ids)
        request, reason = exchange.request, exchange.finish.reason
        turn = Turn(request.prompt, exchange.reply, reason, request.seed, exchange.first)
        if drawn is None:
            ids, kept = tuple(self._make_template(exchange.before).answer(turn.reply)), 0
        else:
            ids, kept = ids_that_spell(text, drawn, self._tokenizer)
        turn = replace(turn, reply_ids=ids, drawn=kept)
        self.conversation = exchange.before.add(turn)
        self._seeded = self._seeded_by(request.index)

    def _choose_seed(self, number: int) -> int:
        seed = self.settings.make(SeedConfig).seed
        return draw_seed() if seed is None else seed_of(seed, number - self._seeded_by(number))

    def _seeded_by(self, number: int) -> int:
        """Return which turn has the seed that was set, once the turn of this number is made."""
        return number if self._seeded is None else min(number, self._seeded)

    def _make_template(self, conversation: Conversation) -> Template:
        special, load_own = self._allow_special, self._load_template
        return make_template(
            conversation, self._tokenizer, allow_special=special, load_own=load_own
        )
