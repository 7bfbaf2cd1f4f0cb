"""One sequence on its way through the loop: prompt and completion, their text, their limits."""

import copy
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import Overflow
from gpt2cli.detokenizer import Detokenizer, StopMatcher
from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.generation.interfaces import Chunk, Finish, FinishReason
from gpt2cli.generation.reading import settle
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.sampling.history import History
from gpt2cli.sampling.logprobs import TokenLogprob, find_logprobs
from gpt2cli.tokenizer import Tokenizer


class TokenSequence:
    """One sample of one request, fed with one id after the other."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prepared: PreparedRequest,
        number: int,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make sample `number` of a request; `limit` is the model's `n_positions`.

        `clock`: in seconds.
        """
        self._clock = clock
        self._ends_at = math.inf  # by the clock
        request = prepared.request
        self.index = request.index
        self._number = number
        self._limit = limit
        self._kept_tokens = prepared.kept_tokens
        self._config = request.generation
        healing = prepared.healing
        self._prompt_tokens = len(prepared.prompt_ids) + (0 if healing is None else len(healing))
        eos_ids = frozenset() if self._config.ignore_eos else tokenizer.eos_token_ids
        self.eos_ids = eos_ids | frozenset(self._config.stop_token)
        again = 0 if healing is None else len(healing.text)  # bytes that the prompt has already
        self._detokenizer = Detokenizer(tokenizer, skipped=again)
        self._stops = StopMatcher(self._config.stop, keep=self._config.include_stop)
        self._drawn = 0
        self._finish: FinishReason | None = None
        self._error: Gpt2Error | None = None
        self._top = request.logprobs  # alternatives of each token; None: no logprobs
        self._logprobs: list[TokenLogprob] = []  # of what was drawn
        self._shown = 0  # how many of these are in a chunk
        # The ids that the model sees: all of them, or after sliding the last ones.
        self.window = list(prepared.prompt_ids)
        self.stepped = settle(prepared.stepped or [False] * len(self.window))  # or read; of each id
        self.needs_prefill = True
        self.fed = 0  # how many ids of the window the slot holds
        # After `prefix`; kept while the slot begins with it, since other samples may share both.
        self.prefix_logits: NDArray[np.float32] | None = None  # [1, V]
        self._check_limits()  # this may cut the window, which is not yet a slide
        self.slid = False
        self.prefix = tuple(self.window)  # the ids that the slot begins with, until they slide
        self._truncated_tokens = len(prepared.prompt_ids) - len(self.prefix)
        self.history = _make_history(tokenizer, prepared, number)

    def fork(self) -> "TokenSequence":
        """Return an independent copy."""
        sequence = copy.copy(self)
        sequence._detokenizer = self._detokenizer.fork()
        sequence._stops = self._stops.fork()
        sequence._logprobs = list(self._logprobs)
        sequence.window = list(self.window)
        sequence.stepped = list(self.stepped)
        sequence.history = self.history.fork()
        return sequence

    def start_clock(self) -> None:
        """Begin to count the seconds of `max_time`, if there is such a limit."""
        if self._config.max_time is not None:
            self._ends_at = self._clock() + self._config.max_time

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be drawn."""
        return self._finish is not None

    @property
    def room(self) -> int:
        """How many more ids there are before a limit is met, 1 or more while it is not finished."""
        return min(self._config.max_new_tokens - self._drawn, self._limit - len(self.window))

    def take(self, token_id: int, logits: NDArray[np.float32]) -> str:
        """Accept an id that was drawn from [V] logits; return the text that is certain now."""
        if token_id in self.eos_ids:
            self._finish = FinishReason.STOP
            is_kept = self._config.include_stop and token_id in self._config.stop_token
            ending = self._feed_stops(self._detokenizer.add(token_id)) if is_kept else ""
            return ending + self._flush()
        self._drawn += 1
        if self._top is not None:
            self._logprobs += find_logprobs(logits[None], [token_id], self._top)
        self.window.append(token_id)
        self.stepped.append(True)
        text = self._feed_stops(self._detokenizer.add(token_id))
        if self._stops.matched is not None:
            self._finish = FinishReason.STOP
            return text
        self._check_limits()
        try:
            self.history.append(token_id)
            if self.history.complete:
                self._finish = FinishReason.STOP
        except PromptError as error:
            self._finish, self._error = FinishReason.ERROR, error
        return text + self._flush() if self.finished else text

    def interrupt(self) -> str:
        """End here and return the text that was held back."""
        self._finish = FinishReason.INTERRUPTED
        return self._flush()

    def fail(self, error: Gpt2Error) -> str:
        """End here, since nothing may follow; return the text that was held back."""
        text = self._flush()
        self._finish, self._error = FinishReason.ERROR, error
        return text

    def chunk(self, text: str) -> Chunk:
        """Return this text as a chunk, with the tokens since the last one, and with the finish."""
        new = tuple(self._logprobs[self._shown :])
        self._shown = len(self._logprobs)
        finish = None
        if self._finish is not None:
            finish = Finish(
                reason=self._finish,
                stop_sequence=self._stops.matched,
                prompt_tokens=self._prompt_tokens,
                completion_tokens=self._drawn,
                truncated_prompt_tokens=self._truncated_tokens,
                error=self._error,
                logprobs=None if self._top is None else tuple(self._logprobs),
            )
        return Chunk(self.index, self._number, text, finish, new, self._drawn)

    def _check_limits(self) -> None:
        if self._drawn >= self._config.max_new_tokens:
            self._finish = FinishReason.LENGTH
        elif self._clock() >= self._ends_at:
            self._finish = FinishReason.TIME
        elif len(self.window) < self._limit:
            return
        elif self._config.overflow is Overflow.SLIDE:
            self._slide()
        else:
            self._finish = FinishReason.CONTEXT

    def _slide(self) -> None:
        """Keep the last half: learned positions cannot be shifted, so it is read anew."""
        self.window = slide(self.window, limit=self._limit, kept=self._kept_tokens)
        self.stepped = [False] * len(self.window)
        self.slid = True
        self.needs_prefill = True
        self.fed = 0
        self.prefix_logits = None

    def _feed_stops(self, text: str) -> str:
        # As vLLM counts: the token that completes a stop sequence comes after the ones required.
        return self._stops.feed(text, counts=self._drawn > self._config.min_new_tokens)

    def _flush(self) -> str:
        """Return what an unfinished character and a possible stop sequence held back."""
        text = self._feed_stops(self._detokenizer.finish())
        if self._stops.matched is not None:
            self._finish = FinishReason.STOP
        return text + self._stops.finish()


def slide(ids: Sequence[int], *, limit: int, kept: int = 0) -> list[int]:
    """Return the first `kept` of at least `limit` ids, and as many last ones as fill half the rest.

    1 ≤ limit, 0 ≤ kept < limit.
    """
    return [*ids[:kept], *ids[-max(1, (limit - kept) // 2) :]]


def _make_history(tokenizer: Tokenizer, prepared: PreparedRequest, number: int) -> History:
    request = prepared.request
    return History(
        request.sampling,
        seed=request.seed,
        sample=number,
        prompt_ids=prepared.prompt_ids,
        biases=prepared.biases,
        bans=prepared.bans,
        breakers=prepared.breakers,
        constraint=prepared.constraint,
        healing=prepared.healing,
        eos_ids=tokenizer.eos_token_ids,
        stop_ids=request.generation.stop_token,
        ignore_eos=request.generation.ignore_eos,
        min_new_tokens=request.generation.min_new_tokens,
    )
