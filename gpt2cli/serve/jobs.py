"""A client's request on its way through the loop, and what the client has not taken of it yet."""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence

from gpt2cli.generation.interfaces import Chunk, Finish, FinishReason
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.openai.pieces import Key, Piece, Scores


class Job:
    """The prompts of one client.

    Its public attributes are the runner's, under its lock. Everything else is used by the event
    loop's thread alone. What a slow reader has not taken is joined: it is never
    more than the texts themselves, whose tokens are limited.
    """

    def __init__(self, prompts: Sequence[PreparedRequest], *, scored: int | None = None) -> None:
        """`scored`: also score the prompts, with so many alternatives of each token."""
        self.prompts = prompts
        self.scored = scored
        self.left: deque[Key] = deque()  # samples that have not begun; of a search the first
        self.missing: set[Key] = set()  # samples that have not finished
        for number, prepared in enumerate(prompts):
            self.left.extend((number, sample) for sample in range(prepared.runs))
            samples = range(prepared.request.samples)
            self.missing.update(zip(itertools.repeat(number), samples, strict=False))
        self.tokens = sum(len(prepared.prompt_ids) for prepared in prompts)
        self.first = 0  # the first of the numbers by which the loop knows the prompts
        self.begun = False
        self.due = math.inf  # when it is cut short
        self.withdrawn = False
        self._open = len(self.missing)
        self._pieces: dict[Key, Piece] = {}
        self._scores: list[Scores] = []
        self._error: Exception | None = None
        self._ready = asyncio.Event()

    def add(self, key: Key, chunk: Chunk) -> None:
        """Add what the loop has made."""
        piece = self._pieces.setdefault(key, Piece(key))
        piece.text += chunk.text
        piece.tokens += chunk.logprobs
        piece.finish, piece.drawn = chunk.finish, chunk.drawn
        self._open -= chunk.finish is not None
        self._ready.set()

    def add_scores(self, scores: Scores) -> None:
        """Add the scores of a prompt, before anything of its samples."""
        self._scores.append(scores)

    def fail(self, error: Exception) -> None:
        """End with an error."""
        self._error = error
        self._ready.set()

    async def results(self) -> AsyncIterator[tuple[Sequence[Scores], Sequence[Piece]]]:
        """Yield what there is since the last time, until everything has finished.

        Raises:
            Exception: what ended the loop.
        """
        is_open = True
        while is_open:
            await self._ready.wait()
            if self._error is not None:
                raise self._error
            self._ready.clear()
            scores, self._scores = self._scores, []
            pieces, self._pieces = self._pieces, {}
            is_open = self._open > 0
            yield scores, tuple(pieces.values())


def make_cut(prepared: PreparedRequest) -> Chunk:
    """Return the only chunk of a sample that has not begun and never will."""
    finish = Finish(
        reason=FinishReason.INTERRUPTED,
        stop_sequence=None,
        prompt_tokens=len(prepared.prompt_ids),
        completion_tokens=0,
        logprobs=None if prepared.request.logprobs is None else (),
    )
    return Chunk(prepared.request.index, 0, "", finish)
