"""Runs samples side by side in the engine's slots.

It passes logits on unopened: the engine makes them, the sampler reads them.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from gpt2cli.errors import PromptError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import Counts, Logits, LogitsEngine, SampleSource
from gpt2cli.generation.kept import KeptSlot
from gpt2cli.generation.requests import Chunk, PreparedRequest
from gpt2cli.generation.sample import Sample, find_wanted_logprobs
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer


def generate(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    requests: Iterable[PreparedRequest],
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    kept: KeptSlot | None = None,
) -> Generator[Chunk, None, None]:
    """Yield the chunks of all samples as they are made; `counts` is kept up to date meanwhile.

    A finished sample's slot is taken by the next one at once. What a sample yields depends on its
    request alone: each prompt is prefilled by itself. Once `interrupted` says so, the samples that
    run finish with what they have and no other begins. Closing the iterator stops all work.

    With `kept`, for runs of one sample each, the slot stays open between them: a prompt that begins
    as the one before went on is prefilled from there, so the text depends on what came before.

    Raises:
        PromptError: if the options of a request leave nothing to choose.
    """
    chunks = generate_from(
        _IterableSource(iter(requests)),
        engine,
        tokenizer,
        sampler,
        counts=counts,
        interrupted=interrupted,
        kept=kept,
    )
    with closing(chunks):
        for chunk in chunks:
            if chunk.finish is not None and chunk.finish.error is not None:
                raise PromptError(chunk.finish.error)
            yield chunk


def generate_from(
    source: SampleSource,
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    kept: KeptSlot | None = None,
) -> Generator[Chunk, None, None]:
    """Do as `generate` with samples that may come later: those that run never wait for them.

    A sample whose options leave nothing to choose finishes with the error; the others go on.
    """
    counts = counts if counts is not None else Counts()
    loop = _Loop(engine, tokenizer, sampler, counts, interrupted, kept)
    try:
        yield from loop.run(source)
    finally:
        loop.close()


class _IterableSource:
    """Gives the samples of requests that are all there when they are asked for."""

    def __init__(self, requests: Iterator[PreparedRequest]) -> None:
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
class _Loop:
    engine: LogitsEngine
    tokenizer: Tokenizer
    sampler: Sampler
    counts: Counts
    interrupted: Callable[[], bool]
    kept: KeptSlot | None
    active: list[Sample] = field(default_factory=list)  # active[i] runs in slot i
    searches: list[BeamSearch] = field(default_factory=list)  # to which some of them belong
    waiting: tuple[PreparedRequest, int] | None = None  # for more room than there is

    def run(self, source: SampleSource) -> Iterator[Chunk]:
        """Yield chunks until nothing is active and nothing will come."""
        while not self.interrupted():
            yield from self._refill(source)
            slid = [sample for sample in self.active if sample.needs_prefill]
            for sample in slid:
                yield from self._draw(self._prefill(sample), [sample])
            if not self.active and self.waiting is None and source.ended:
                return
            if self.active and not slid:  # else some may have finished: refill first
                yield from self._decode()
        for search in self.searches:
            yield from search.interrupt()
        for sample in self.active:
            if not sample.finished:
                yield sample.chunk(sample.interrupt())

    def close(self) -> None:
        """Free every slot."""
        while self.active:
            self._release(len(self.active) - 1)

    def _refill(self, source: SampleSource) -> Iterator[Chunk]:
        """Give finished samples' slots, then free ones, to who waits; close the rest.

        Who comes first begins first: a search for which there is no room yet lets nobody pass. One
        that needs more than there ever is begins when it would be alone.
        """
        while not self.interrupted() and (room := self._count_room()) > 0:
            if self.waiting is None:
                self.waiting = source.take(wait=all(sample.finished for sample in self.active))
            if self.waiting is None or room < min(self.waiting[0].slots, self.engine.max_slots):
                break
            (prepared, number), self.waiting = self.waiting, None
            if prepared.request.search.on:
                yield from self._begin_search(prepared)
            else:
                yield from self._begin_sample(prepared, number)
        self._release_finished()

    def _count_room(self) -> int:
        """Return how many slots nobody has a claim to: a search may come to have all its beams."""
        searching = sum(len(search.samples) for search in self.searches)
        claimed = sum(search.slots for search in self.searches)
        finished = sum(sample.finished for sample in self.active)
        return self.engine.max_slots - (len(self.active) - finished - searching) - claimed

    def _begin_sample(self, prepared: PreparedRequest, number: int) -> Iterator[Chunk]:
        sample = Sample(self.tokenizer, prepared, number, self.engine.shape.n_positions)
        if sample.finished:  # nothing is to be drawn at all
            yield sample.chunk("")
            return
        self._place(sample)
        yield from self._draw(self._prefill(sample), [sample])

    def _begin_search(self, prepared: PreparedRequest) -> Iterator[Chunk]:
        search = BeamSearch(self.tokenizer, prepared, self.engine.shape.n_positions)
        if search.ended:
            yield from search.finish()
            return
        [sample] = search.samples
        self._place(sample)
        self._release_finished()  # for its beams
        self.searches.append(search)
        yield from self._advance(search, self._prefill(sample))

    def _release_finished(self) -> None:
        for slot in reversed(range(len(self.active))):
            if self.active[slot].finished:
                self._release(slot)

    def _release(self, slot: int) -> None:
        """Free a slot, or keep it for the next run."""
        if self.kept is not None and len(self.active) == 1:
            self.kept.keep(self.active[slot])
        else:
            self.engine.free(slot)
        self.active[slot] = self.active[-1]
        self.active.pop()

    def _place(self, sample: Sample) -> None:
        """Put a sample into a slot, with its prompt's cache where some slot still begins with it.

        A request's samples thus share one prefill, and so do equal prompts that meet.
        """
        slot = next((i for i, s in enumerate(self.active) if s.finished), len(self.active))
        source = next(
            (i for i, s in enumerate(self.active) if _shares_prefix(s, sample)),
            None,
        )
        if source is not None:
            sample.prefix_logits = self.active[source].prefix_logits
            sample.feed(len(sample.prefix))
            if source != slot:
                self.engine.fork(source, slot)
            self.engine.rewind(slot, len(sample.prefix))
        elif slot < len(self.active):
            self.engine.rewind(slot, 0)
        elif self.kept is not None and self.kept.is_open:
            self.kept.lend(sample)
            self.engine.rewind(slot, sample.fed)
        self.active[slot : slot + 1] = [sample]

    def _prefill(self, sample: Sample) -> Logits:
        """Return the logits after a sample's window: [1, V]."""
        sample.needs_prefill = False
        if sample.prefix_logits is not None:
            return sample.prefix_logits
        slot = self.active.index(sample)
        if sample.slid:
            self.engine.rewind(slot, 0)
        ids = sample.window[sample.fed :]
        started = time.perf_counter()
        logits = self.engine.extend(slot, ids, [len(ids) - 1])
        self.counts.prefill_seconds += time.perf_counter() - started
        self.counts.prefill_tokens += len(ids)
        sample.feed(len(ids))
        if not sample.slid:
            sample.prefix_logits = logits
        return logits

    def _decode(self) -> Iterator[Chunk]:
        """Make the logits after every active sample; samples draw by them, searches go on."""
        ids = [sample.window[-1] for sample in self.active]
        started = time.perf_counter()
        logits = self.engine.decode(ids)  # [n, V]
        self.counts.decode_seconds += time.perf_counter() - started
        self.counts.decode_tokens += len(ids)
        places = {sample: place for place, sample in enumerate(self.active)}
        for sample in self.active:
            sample.fed += 1
        for search in list(self.searches):
            yield from self._advance(search, logits[[places.pop(s) for s in search.samples]])
        if places:
            drawing = logits if len(places) == len(ids) else logits[list(places.values())]
            yield from self._draw(drawing, list(places))

    def _draw(self, logits: Logits, samples: Sequence[Sample]) -> Iterator[Chunk]:
        """Draw the next id of samples by [n, V] logits."""
        started = time.perf_counter()
        try:
            ids = self.sampler.step(logits, [sample.row for sample in samples])
        except PromptError as error:  # of one of them: the others draw without it
            if len(samples) == 1:
                yield samples[0].chunk(samples[0].fail(str(error)))
            else:
                for place, sample in enumerate(samples):
                    yield from self._draw(logits[place : place + 1], [sample])
            return
        logprobs = find_wanted_logprobs(logits, samples, ids)
        self.counts.sample_seconds += time.perf_counter() - started
        for sample, token_id, logprob in zip(samples, ids, logprobs, strict=True):
            text = sample.take(token_id, logprob)
            if text or sample.finished:
                yield sample.chunk(text)

    def _advance(self, search: BeamSearch, logits: Logits) -> Iterator[Chunk]:
        """Let a search take a step by the [n, V] logits of its beams; show what it found."""
        started = time.perf_counter()
        before = search.samples
        parents = search.step(self.sampler, logits)
        self._regroup(before, search.samples, parents)
        self.counts.sample_seconds += time.perf_counter() - started
        if search.ended:
            self.searches.remove(search)
            yield from search.finish()

    def _regroup(
        self, before: Sequence[Sample], after: Sequence[Sample], parents: Sequence[int]
    ) -> None:
        """Give each beam a slot that holds the one it continues, `before[parent]`.

        The first to continue it has its slot; others a copy, in the slots of those that end here.
        """
        slots = [self.active.index(sample) for sample in before]
        spare = [slot for place, slot in enumerate(slots) if place not in parents]
        for place, (sample, parent) in enumerate(zip(after, parents, strict=True)):
            slot = slots[parent]
            if parent in parents[:place]:
                slot = spare.pop() if spare else len(self.active)
                self.engine.fork(slots[parent], slot)
            self.active[slot : slot + 1] = [sample]
        for slot in sorted(spare, reverse=True):
            self._release(slot)


def _shares_prefix(active: Sample, waiting: Sample) -> bool:
    return active.prefix_logits is not None and active.prefix == waiting.prefix
