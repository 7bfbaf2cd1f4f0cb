"""Runs samples side by side in the engine's slots.

It does not read logits: the engine makes them, the sampler reads them.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from gpt2cli.errors import PromptError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.interfaces import Chunk, Counts, Logits, LogitsEngine, SampleSource
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.reading import find_calls
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.generation.slots import Slots
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer


def generate(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    requests: Iterable[PreparedRequest],
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    prompt_cache: PromptCache | None = None,
    drafting: Drafting | None = None,
) -> Generator[Chunk, None, None]:
    """Yield the chunks of all samples as they are made; `counts` is kept up to date meanwhile.

    A finished sample's slot is taken by the next one at once. What a sample yields depends on its
    request alone, whatever of its prompt a slot already held. Once `interrupted` says so, the
    samples that run finish with what they have and no other begins. Closing the iterator stops all
    work.

    With `prompt_cache`, for runs of one sample each, the slot stays open between them, so that a
    prompt that begins as the one before went on is prefilled from there. With `drafting`,
    what runs alone is decoded several tokens at a time, to the same text.

    Raises:
        PromptError: if the options of a request leave nothing to choose.
        DeviceFullError: if the device's memory does not hold a step.
    """
    loop = Loop(engine, tokenizer, sampler, counts or Counts(), interrupted, prompt_cache, drafting)
    with closing(loop.run(_RequestSource(requests))) as chunks:
        for chunk in chunks:
            if chunk.finish is not None and chunk.finish.error is not None:
                raise chunk.finish.error
            yield chunk


class _RequestSource:
    """Gives the samples of requests that are all there when they are asked for."""

    def __init__(self, requests: Iterable[PreparedRequest]) -> None:
        self._samples = (
            (prepared, number) for prepared in requests for number in range(prepared.runs)
        )
        self.ended = False

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next sample; None at the end."""
        sample = next(self._samples, None)
        self.ended = sample is None
        return sample


@dataclass(slots=True)
class Loop:
    """One run."""

    engine: LogitsEngine
    tokenizer: Tokenizer
    sampler: Sampler
    counts: Counts = field(default_factory=Counts)
    interrupted: Callable[[], bool] = lambda: False
    prompt_cache: PromptCache | None = None
    drafting: Drafting | None = None
    clock: Callable[[], float] = time.monotonic  # in seconds
    withdrawn: Callable[[int], bool] = lambda index: False  # of the request with this index
    searches: list[BeamSearch] = field(default_factory=list)  # to which some of them belong
    waiting: TokenSequence | BeamSearch | None = None  # needs more room than there is now
    slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        self.slots = Slots(self.engine, self.counts, self.prompt_cache)

    @property
    def active(self) -> list[TokenSequence]:
        """The sequences that run, each in the slot of its index."""
        return self.slots.active

    def run(self, source: SampleSource) -> Generator[Chunk, None, None]:
        """Yield chunks until nothing is active and nothing will come; then no slot is open.

        Samples that run never wait for others to come. One whose options leave nothing to choose
        finishes with the error, and the others go on. So they do where a request is `withdrawn`:
        before the next step its samples finish with what they have.
        """
        try:
            while not self.interrupted():
                yield from self._step(source)
                if not self.active and self.waiting is None and source.ended:
                    return
            for search in self.searches:
                yield from search.interrupt()
            for sequence in self.active:
                has_begun = sequence.slid or not sequence.needs_prefill
                if has_begun and not sequence.finished:
                    yield sequence.chunk(sequence.interrupt())
        finally:
            self.slots.close()

    def _step(self, source: SampleSource) -> Iterator[Chunk]:
        yield from self._end_withdrawn()
        yield from self._refill(source)
        slid = [sequence for sequence in self.active if sequence.needs_prefill]
        if not all(sequence.slid for sequence in slid):
            return  # a prefill was interrupted
        for sequence in slid:
            # From the first id on: positions are learned, so what is in the cache cannot be moved.
            self.engine.rewind(self.active.index(sequence), 0)
            logits = self._prefill(sequence)
            assert logits is not None  # it is all read, in one call
            yield from self._draw(logits, [sequence])
        if self.active and not slid:  # else some may have finished: refill first
            proposed = self._propose()
            yield from self._verify(proposed) if proposed else self._decode()

    def _end_withdrawn(self) -> Iterator[Chunk]:
        if isinstance(self.waiting, BeamSearch) and self.withdrawn(self.waiting.index):
            search, self.waiting = self.waiting, None
            yield from search.interrupt()
        for search in [s for s in self.searches if self.withdrawn(s.index)]:
            self.searches.remove(search)
            yield from search.interrupt()
        for sequence in self.active:
            if not sequence.finished and self.withdrawn(sequence.index):
                yield sequence.chunk(sequence.interrupt())

    def _refill(self, source: SampleSource) -> Iterator[Chunk]:
        """Give the slots of finished sequences, then free ones, to those that wait; close the rest.

        First come, first served: a search that waits for room holds back all others. One that needs
        more room than there ever is begins once it is alone.
        """
        while not self.interrupted() and (room := self._count_room()) > 0:
            if self.waiting is None:
                taken = source.take(wait=all(sequence.finished for sequence in self.active))
                if taken is None:
                    break
                self.waiting = self._make(*taken)
            if isinstance(self.waiting, TokenSequence):
                sequence, self.waiting = self.waiting, None
                yield from self._begin(sequence)
            elif room >= min(self.waiting.beams, self.engine.max_slots):
                search, self.waiting = self.waiting, None
                yield from self._begin_search(search)
            else:
                break
        self.slots.release_finished()

    def _make(self, prepared: PreparedRequest, number: int) -> TokenSequence | BeamSearch:
        limit = self.engine.shape.n_positions
        if prepared.request.search.on:
            return BeamSearch(self.tokenizer, prepared, limit, clock=self.clock)
        return TokenSequence(self.tokenizer, prepared, number, limit, clock=self.clock)

    def _count_room(self) -> int:
        """Return how many slots nobody may need: a search may grow to all its beams."""
        searching = sum(len(search.sequences) for search in self.searches)
        claimed = sum(search.beams for search in self.searches)
        finished = sum(sequence.finished for sequence in self.active)
        return self.engine.max_slots - (len(self.active) - finished - searching) - claimed

    def _begin(self, sequence: TokenSequence) -> Iterator[Chunk]:
        if sequence.finished:  # the limits allow no token
            yield sequence.chunk("")
            return
        sequence.start_clock()
        self.slots.place(sequence)
        logits = self._prefill(sequence)
        if logits is not None:
            self.slots.look_ahead(sequence)
            yield from self._draw(logits, [sequence])

    def _begin_search(self, search: BeamSearch) -> Iterator[Chunk]:
        if search.ended:
            yield from search.finish()
            return
        [sequence] = search.sequences
        self.searches.append(search)
        sequence.start_clock()
        self.slots.place(sequence)
        self.slots.release_finished()  # for its beams
        logits = self._prefill(sequence)
        assert logits is not None  # no search has a prompt that was drawn
        yield from self._advance(search, logits)

    def _prefill(self, sequence: TokenSequence) -> Logits | None:
        """Return the logits after a sequence's window: [1, V].

        To step what was drawn in an earlier process may take long: None, if it was interrupted.
        """
        sequence.needs_prefill = False
        if sequence.prefix_logits is not None:
            return sequence.prefix_logits
        slot = self.active.index(sequence)
        started = time.perf_counter()
        logits, steps = None, self.engine.most_steps
        for start, end in find_calls(sequence.stepped, sequence.fed, most_steps=steps):
            if logits is not None and self.interrupted():
                sequence.needs_prefill = True
                return None
            ids = sequence.window[start:end]
            if sequence.stepped[start] and len(ids) > 1:
                logits = self.engine.verify(slot, ids)[-1:].copy()  # it is overwritten
            else:
                logits = self.engine.extend(slot, ids, [len(ids) - 1])
            sequence.fed = end
            self.counts.prefill_tokens += len(ids)
        self.counts.prefill_seconds += time.perf_counter() - started
        if not sequence.slid:
            sequence.prefix_logits = logits
            self.slots.prefixes.learn(sequence, slot)
        return logits

    def _decode(self) -> Iterator[Chunk]:
        """Make the logits after every active sequence; samples draw by them, searches go on."""
        ids = [sequence.window[-1] for sequence in self.active]
        started = time.perf_counter()
        logits = self.engine.decode(ids)  # [n, V]
        seconds = time.perf_counter() - started
        self.counts.decode_seconds += seconds
        self.counts.decode_tokens += len(ids)
        if self.drafting is not None and len(ids) == 1:
            self.drafting.note_plain(seconds)
        rows = {}
        for row, sequence in enumerate(self.active):
            sequence.fed += 1
            rows[sequence] = row
        for search in list(self.searches):
            yield from self._advance(search, logits[[rows.pop(s) for s in search.sequences]])
        if rows:
            drawing = logits if len(rows) == len(ids) else logits[list(rows.values())]
            yield from self._draw(drawing, list(rows))

    def _propose(self) -> list[int]:
        """Return what a draft proposes for the one sequence that runs; beams do not draft."""
        if self.drafting is None or len(self.active) > 1 or self.searches:
            return []
        started = time.perf_counter()
        proposed = self.drafting.propose(self.active[0])
        self.counts.decode_seconds += time.perf_counter() - started
        return proposed

    def _verify(self, proposed: Sequence[int]) -> Iterator[Chunk]:
        """Draw by the logits after each proposed id, as long as what was drawn is what is next."""
        assert self.drafting is not None
        [sequence] = self.active
        started = time.perf_counter()
        logits = self.engine.verify(0, [sequence.window[-1], *proposed])  # [K, V]
        seconds = time.perf_counter() - started
        self.counts.decode_seconds += seconds
        accepted = 0
        try:
            # The last row has no proposal to agree with: what it gives is one more token for free.
            for row, following in enumerate([*proposed, None]):
                sequence.fed += 1
                yield from self._draw(logits[row : row + 1], [sequence])
                goes_on = not sequence.finished and not sequence.needs_prefill
                if not goes_on or sequence.window[-1] != following:
                    break
                accepted += 1
        finally:
            self.engine.rewind(0, sequence.fed)  # what was not drawn was written into the cache too
            self.counts.decode_tokens += accepted + 1
            self.drafting.note_verified(sequence, len(proposed), accepted, seconds)

    def _draw(self, logits: Logits, sequences: Sequence[TokenSequence]) -> Iterator[Chunk]:
        """Draw the next id of sequences by [n, V] logits."""
        started = time.perf_counter()
        try:
            ids = self.sampler.step(logits, [sequence.history for sequence in sequences])
        except PromptError as error:  # of one of them: each draws by itself, to find out of which
            if len(sequences) == 1:
                yield sequences[0].chunk(sequences[0].fail(error))
            else:
                for row, sequence in enumerate(sequences):
                    yield from self._draw(logits[row : row + 1], [sequence])
            return
        texts = [s.take(i, row) for s, i, row in zip(sequences, ids, logits, strict=True)]
        self.counts.sample_seconds += time.perf_counter() - started
        for sequence, text in zip(sequences, texts, strict=True):
            if text or sequence.finished:
                yield sequence.chunk(text)

    def _advance(self, search: BeamSearch, logits: Logits) -> Iterator[Chunk]:
        """Let a search take a step by the [n, V] logits of its beams; show what it found."""
        started = time.perf_counter()
        before = search.sequences
        parents = search.step(self.sampler, logits)
        self.slots.regroup(before, search.sequences, parents)
        self.counts.sample_seconds += time.perf_counter() - started
        if search.ended:
            self.searches.remove(search)
            yield from search.finish()
