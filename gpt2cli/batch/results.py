"""Runs records through the generation loop, and passes the results on in the order of the input."""

from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from gpt2cli.batch.items import BatchItem
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.interfaces import Chunk, Counts, Finish, FinishReason, LogitsEngine
from gpt2cli.generation.loop import Loop
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.openai.asking import Ask
from gpt2cli.openai.pieces import Key, Piece
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer

# How many results may be begun before the oldest one is written: for each slot, and in characters.
_WINDOW_PER_SLOT: Final = 8
_WINDOW_CHARACTERS: Final = 1 << 22


@dataclass(slots=True)
class Result:
    """What a sample of a record has so far; an error's only result has nothing."""

    item: BatchItem
    sample: int = 0
    pieces: list[str] = field(default_factory=list)
    finish: Finish | None = None
    made: dict[Key, Piece] = field(default_factory=dict)  # for a record in OpenAI's form

    @property
    def completion(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def error(self) -> str | None:
        """Why there is no completion, or not all of it."""
        if self.finish is None:
            return self.item.error
        return None if self.finish.error is None else str(self.finish.error)

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        if self.made:
            return all(piece.finish is not None for piece in self.made.values())
        return self.finish is not None or self.item.prepared is None


class Items(Protocol):
    """Where a run takes its records from."""

    @property
    def ended(self) -> bool:
        """Whether no item will come any more."""
        ...

    def take(self, *, wait: bool) -> BatchItem | None:
        """Return the next item; None if there is none now, with `wait` after a short wait."""
        ...


class BatchRun:
    """One run over an input. `sink` is called with each result as soon as all before it are done.

    It bounds what it reads ahead, and what is finished but must wait for an older result.
    """

    def __init__(
        self,
        items: Items,
        sink: Callable[[Result], None],
        *,
        slots: int,
        interrupted: Callable[[], bool] = lambda: False,
        in_order: bool = True,
    ) -> None:
        """Once `interrupted` says so, no other result begins and those that run are dropped.

        Unless `in_order`, a result does not wait for older ones.
        """
        self._items = items
        self._sink = sink
        self._window = _WINDOW_PER_SLOT * slots
        self._interrupted = interrupted
        self._in_order = in_order
        self._current: BatchItem | None = None  # whose samples are being begun
        self._next_sample = 0  # of it
        self._waiting: deque[Result] = deque()  # in order, from the oldest that is not handed on
        self._waiting_characters = 0  # of their prompts
        # (index, sample) of the loop -> one of those, and which of its completions
        self._running: dict[tuple[int, int], tuple[Result, Key]] = {}
        self._left: deque[tuple[PreparedRequest, int]] = deque()  # of a result that has begun
        self._last_number = 0  # by which the loop knows prompts that have no record of their own

    @property
    def ended(self) -> bool:
        """Whether no sample will come any more."""
        return not self._left and self._current is None and self._items.ended

    def run(
        self,
        engine: LogitsEngine,
        tokenizer: Tokenizer,
        sampler: Sampler,
        *,
        counts: Counts,
        drafting: Drafting | None = None,
    ) -> None:
        """Work until the input ends, or it is interrupted.

        Raises:
            Gpt2Error: if the input cannot be read, the model fails, or the sink does.
        """
        loop = Loop(engine, tokenizer, sampler, counts, self._interrupted, drafting=drafting)
        with closing(loop.run(self)) as chunks:
            for chunk in chunks:
                self._accept(chunk)

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next sample; records that cannot be run are answered on the way."""
        while (self._left or self._has_room()) and not self._interrupted():
            if self._left:
                return self._left.popleft()
            if self._current is None:
                self._current = self._items.take(wait=wait)
            if self._current is None:
                return None
            result = self._begin_next(self._current)
            prepared = result.item.prepared
            if prepared is None:  # it has prompts of its own, or it is an error
                self._hand_on()
                continue
            while self._current is not None and prepared.request.search.on:
                self._begin_next(self._current)  # one search makes all its results
            return prepared, result.sample
        return None

    def _has_room(self) -> bool:
        in_window = len(self._waiting) < self._window
        return in_window and self._waiting_characters < _WINDOW_CHARACTERS

    def _begin_next(self, item: BatchItem) -> Result:
        """Begin the next result of the current item; it is written after all that wait."""
        result = Result(item, self._next_sample)
        self._next_sample += 1
        if self._next_sample == item.results:
            self._current, self._next_sample = None, 0
        self._waiting.append(result)
        self._waiting_characters += item.characters
        if item.prepared is not None:
            self._running[item.index, result.sample] = result, (0, result.sample)
        elif item.asked is not None and item.asked.ask is not None:
            self._begin_all(result, item.asked.ask)
        return result

    def _begin_all(self, result: Result, ask: Ask) -> None:
        """Begin all prompts of a record; their numbers are below 0, where no record has its own."""
        for number, prepared in enumerate(ask.prompts):
            self._last_number -= 1
            request = replace(prepared.request, index=self._last_number)
            numbered = replace(prepared, request=request)
            self._left.extend((numbered, sample) for sample in range(prepared.runs))
            for sample in range(request.samples):
                key = (number, sample)
                result.made[key] = Piece(key)
                self._running[self._last_number, sample] = result, key

    def _accept(self, chunk: Chunk) -> None:
        result, key = self._running[chunk.index, chunk.sample]
        piece = result.made.get(key)
        if piece is None:
            result.pieces.append(chunk.text)
        else:
            piece.text += chunk.text
        # One that is interrupted is dropped: a run that is resumed makes it again, whole.
        if chunk.finish is not None and chunk.finish.reason is not FinishReason.INTERRUPTED:
            if piece is None:
                result.finish = chunk.finish
            else:
                piece.finish, piece.tokens = chunk.finish, list(chunk.finish.logprobs or ())
            del self._running[chunk.index, chunk.sample]
            self._hand_on()

    def _hand_on(self) -> None:
        if not self._in_order:  # a stable sort; there are some hundreds at most
            self._waiting = deque(sorted(self._waiting, key=lambda result: not result.done))
        while self._waiting and self._waiting[0].done:  # a later one that is done waits for it
            result = self._waiting.popleft()
            self._waiting_characters -= result.item.characters
            self._sink(result)
