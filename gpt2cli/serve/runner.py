"""Runs jobs side by side in the decode loop, in the order in which they came."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.interfaces import Chunk, Counts, LogitsEngine
from gpt2cli.generation.loop import Loop
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.openai.faults import Fault
from gpt2cli.openai.pieces import Key, Scores
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.scoring import choose_stride, score
from gpt2cli.serve.jobs import Job, make_cut
from gpt2cli.tokenizer import Tokenizer

_MOMENT: Final = 0.1  # seconds that `take` waits
_MOST_TOKENS: Final = 1 << 22  # of prompts, beyond which no job is taken: they fill the memory


@dataclass(slots=True)
class Tally:
    """What the jobs were, for statistics; times in seconds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: int = 0  # of the model
    score_seconds: float = 0.0


CallSoon = Callable[[Callable[[], object]], object]  # call_soon_threadsafe of the event loop


class Runner:
    """The queue of jobs, and the loop that takes from it.

    `run` is the engine's thread; the event loop's calls all other methods but `take`. Only
    `call_soon` goes from the former to the latter, and nobody ever waits for a reader.
    """

    def __init__(
        self,
        engine: LogitsEngine,
        tokenizer: Tokenizer,
        sampler: Sampler,
        *,
        call_soon: CallSoon,
        drafting: Drafting | None = None,
        max_waiting: int,
        timeout: float = math.inf,
        tell: Callable[[str], object] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout`: seconds after which a job that has begun is cut short."""
        self._parts = (engine, tokenizer, sampler)
        self._engine = engine
        self._drafting = drafting
        self._call_soon = call_soon
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._tell = tell
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()  # jobs that have samples left to begin
        self.tokens = 0  # of the prompts of all jobs
        self._coming = 0  # jobs that are being prepared
        self._next_number = 0  # of a prompt, by which the loop knows it
        self._running: dict[int, Job] = {}  # by the numbers of their prompts; also those that wait
        self._end_at: float | None = None  # no job comes any more, and all are cut then
        self._over = False
        self._outbox: deque[Callable[[], object]] = deque()
        self._called = False  # whether the event loop will look into it
        self._loop: Loop | None = None
        self._scored_at = -1  # how many tokens had been decoded when a prompt was last scored
        self.counts = Counts()
        self.tally = Tally()

    # The event loop's side

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        with self._changed:
            return self._coming + sum(not job.begun for job in self._queue)

    @property
    def running(self) -> int:
        """How many slots are in use."""
        active = [] if self._loop is None else list(self._loop.active)
        return sum(not sequence.finished for sequence in active)

    @contextmanager
    def place(self) -> Iterator[Callable[[Job], None]]:
        """Keep a place in the queue while a job is prepared; gives what puts it there.

        Raises:
            Fault: if there is none.
        """
        if self._end_at is not None:
            raise Fault(503, "the server is shutting down", code="shutting_down")
        waiting = self.waiting
        if waiting >= self._max_waiting or self.tokens > _MOST_TOKENS:
            message = f"{waiting} requests are waiting already; try again later"
            raise Fault(429, message, code="rate_limit_exceeded")
        self._coming += 1
        try:
            yield self._submit
        finally:
            self._coming -= 1

    def withdraw(self, job: Job) -> None:
        """End a job before the loop's next step, with what it has."""
        with self._changed:
            if not job.withdrawn:
                self._cut(job)

    def _submit(self, job: Job) -> None:
        with self._changed:
            job.first = self._next_number
            self._next_number += len(job.prompts)
            numbers = range(job.first, self._next_number)
            self._running.update(dict.fromkeys(numbers, job))
            self.tokens += job.tokens
            self._queue.append(job)
            self._changed.notify()
            if self._over:
                self._finish(job)

    # The engine's side

    @property
    def ended(self) -> bool:
        """Whether no sample will come any more."""
        return self._end_at is not None and not self._queue and not self._coming

    def end(self, grace: float) -> None:
        """Take no further jobs, and give those that are there so many seconds."""
        self._end_at = self._clock() + grace

    def run(self) -> None:
        """Run jobs until `end` was called and they have finished, or their time is over.

        What the model raises ends those that have begun; the others go on.
        """
        while not self.ended and not self._is_over():
            self._loop = Loop(
                *self._parts,
                self.counts,
                self._is_over,
                drafting=self._drafting,
                withdrawn=self._is_withdrawn,
            )
            try:
                with closing(self._loop.run(self)) as chunks:
                    for chunk in chunks:
                        self._pass_on(chunk)
            except Exception as error:
                self.tally.failures += 1
                self._tell(f"the model failed: {error or type(error).__name__}")
                self._fail(error)
        with self._changed:
            self._over = True
            for job in set(self._running.values()):
                self._finish(job)

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next sample; None if there is none now, with `wait` after a moment."""
        with self._changed:
            if wait and not self._queue:
                self._changed.wait(_MOMENT)
            if not self._queue:
                return None
            job = self._queue[0]
            if job.scored is not None and self._has_scored():
                return None  # one at a time, between steps of what runs
            if not job.begun:
                job.begun = True
                job.due = self._clock() + self._timeout
            number, sample = job.left.popleft()
            if not job.left:
                self._queue.popleft()
        prepared = job.prompts[number]
        if sample == 0:
            self.tally.prompt_tokens += len(prepared.prompt_ids)
        if job.scored is not None and sample == 0:
            self._score(job, number, job.scored)
        request = replace(prepared.request, index=job.first + number)
        return replace(prepared, request=request), sample

    def _score(self, job: Job, number: int, top: int) -> None:
        """Score a prompt at once, as one is prefilled; it fits into a slot."""
        assert self._loop is not None
        self._loop.slots.release_finished()
        some = score(
            self._engine,
            job.prompts[number].prompt_ids,
            bos_token_id=None,
            stride=choose_stride(None, self._engine.shape.n_positions),
            top=top,
            slot=len(self._loop.active),
        )
        started = time.perf_counter()
        scores = Scores(number, [one for part in some for one in part])
        self._scored_at = self.counts.decode_tokens
        self.tally.score_seconds += time.perf_counter() - started
        self._send(partial(job.add_scores, scores))

    def _has_scored(self) -> bool:
        """Tell whether a prompt was scored since what runs took its last step."""
        return self._scored_at == self.counts.decode_tokens and self.running > 0

    def _pass_on(self, chunk: Chunk) -> None:
        job = self._running[chunk.index]
        key = (chunk.index - job.first, chunk.sample)
        self._send(partial(job.add, key, chunk))
        if chunk.finish is not None:
            self.tally.completion_tokens += chunk.finish.completion_tokens
            with self._changed:
                job.missing.discard(key)
                self._forget_finished(job)

    def _is_withdrawn(self, index: int) -> bool:
        job = self._running.get(index)
        if job is None:
            return False
        if not job.withdrawn and self._clock() >= job.due:
            with self._changed:
                self._cut(job)
        return job.withdrawn

    def _is_over(self) -> bool:
        return self._end_at is not None and self._clock() >= self._end_at

    # Both sides, under the lock

    def _cut(self, job: Job) -> None:
        """Let what runs of a job end before the next step, and begin nothing more of it."""
        job.withdrawn = True
        left = set(self._take_back(job))
        searches = {number for number, _ in left if job.prompts[number].request.search.on}
        self._end(job, [key for key in job.missing if key in left or key[0] in searches])

    def _finish(self, job: Job) -> None:
        """End a job at once, when the loop has ended."""
        self._take_back(job)
        self._end(job, list(job.missing))

    def _fail(self, error: Exception) -> None:
        with self._changed:
            for job in {job for job in self._running.values() if job.begun}:
                self._take_back(job)
                job.missing.clear()
                self._forget_finished(job)
                self._send(partial(job.fail, error))

    def _take_back(self, job: Job) -> Sequence[Key]:
        """Take a job out of the queue; return what had not begun."""
        if job.left:
            self._queue.remove(job)
        left = tuple(job.left)
        job.left.clear()
        return left

    def _end(self, job: Job, keys: Sequence[Key]) -> None:
        for key in keys:
            self._send(partial(job.add, key, make_cut(job.prompts[key[0]])))
        job.missing.difference_update(keys)
        self._forget_finished(job)

    def _forget_finished(self, job: Job) -> None:
        if not job.missing and self._running.get(job.first) is job:
            self.tokens -= job.tokens
            for number in range(len(job.prompts)):
                self._running.pop(job.first + number, None)

    def _send(self, event: Callable[[], object]) -> None:
        """Have the event loop do something, with one call for all that it has not done yet."""
        self._outbox.append(event)
        if not self._called:
            self._called = True
            self._call_soon(self._do_all)

    def _do_all(self) -> None:
        self._called = False  # first: what comes from now on may call again
        while self._outbox:
            self._outbox.popleft()()
