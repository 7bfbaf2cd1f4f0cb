"""Runs samples side by side in the engine's slots.

It passes logits on unopened: the engine makes them, the sampler reads them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gpt2cli.errors import PromptError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import Counts, Logits, LogitsEngine, SampleSource
from gpt2cli.generation.kept import KeptSlot
from gpt2cli.generation.requests import Chunk, PreparedRequest
from gpt2cli.generation.sample import Sample, find_wanted_logprobs
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer


@dataclass(slots=True)
class Loop:
    """One run; `close` must follow it, however it ends."""

    engine: LogitsEngine
    tokenizer: Tokenizer
    sampler: Sampler
    counts: Counts
    interrupted: Callable[[], bool]
    kept: KeptSlot | None
    active: list[Sample] = field(default_factory=list)  # active[i] runs in slot i
    searches: list[BeamSearch] = field(default_factory=list)  # to which some of them belong
    waiting: deque[Sample | BeamSearch] = field(default_factory=deque)  # for more room

    def run(self, source: SampleSource) -> Iterator[Chunk]:
        """Yield chunks until nothing is active and nothing will come."""
        while not self.interrupted():
            yield from self._step(source)
            if not self.active and not self.waiting and source.ended:
                return
        for search in self.searches:
            yield from search.interrupt()
        for sample in self.active:
            if not sample.finished:
                yield sample.chunk(sample.interrupt())

    def close(self) -> None:
        """Free every slot."""
        while self.active:
            self._release(len(self.active) - 1)

    def _step(self, source: SampleSource) -> Iterator[Chunk]:
        yield from self._refill(source)
        slid = [sample for sample in self.active if sample.needs_prefill]
        for sample in slid:
            self.engine.rewind(self.active.index(sample), 0)
            yield from self._draw(self._prefill(sample), [sample])
        if self.active and not slid:  # else some may have finished: refill first
            yield from self._decode()

    def _refill(self, source: SampleSource) -> Iterator[Chunk]:
        """Give finished samples' slots, then free ones, to who waits; close the rest.

        Who comes first begins first: a search for which there is no room yet lets nobody pass. One
        that needs more than there ever is begins when it would be alone.
        """
        while not self.interrupted() and (room := self._count_room()) > 0:
            if not self.waiting:
                taken = source.take(wait=all(sample.finished for sample in self.active))
                if taken is None:
                    break
                self.waiting.append(self._make_run(*taken))
            if room < min(self.waiting[0].slots, self.engine.max_slots):
                break
            run = self.waiting.popleft()
            if isinstance(run, BeamSearch):
                yield from self._begin_search(run)
            else:
                yield from self._begin_sample(run)
        self._release_finished()

    def _make_run(self, prepared: PreparedRequest, number: int) -> Sample | BeamSearch:
        limit = self.engine.shape.n_positions
        if prepared.request.search.on:
            return BeamSearch(self.tokenizer, prepared, limit)
        return Sample(self.tokenizer, prepared, number, limit)

    def _count_room(self) -> int:
        """Return how many slots nobody has a claim to: a search may come to have all its beams."""
        searching = sum(len(search.samples) for search in self.searches)
        claimed = sum(search.slots for search in self.searches)
        finished = sum(sample.finished for sample in self.active)
        return self.engine.max_slots - (len(self.active) - finished - searching) - claimed

    def _begin_sample(self, sample: Sample) -> Iterator[Chunk]:
        if sample.finished:  # nothing is to be drawn at all
            yield sample.chunk("")
            return
        self._place(sample)
        yield from self._draw(self._prefill(sample), [sample])

    def _begin_search(self, search: BeamSearch) -> Iterator[Chunk]:
        if search.ended:
            yield from search.finish()
            return
        [sample] = search.samples
        self.searches.append(search)
        self._place(sample)
        self._release_finished()  # for its beams
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
        before = list(self.active)
        slot = next((i for i, s in enumerate(before) if s.finished), len(before))
        source = next((i for i, s in enumerate(before) if _shares_prefix(s, sample)), None)
        self.active[slot : slot + 1] = [sample]  # before the engine may fail
        if source is not None:
            sample.prefix_logits = before[source].prefix_logits
            sample.feed(len(sample.prefix))
            if source != slot:
                self.engine.fork(source, slot)
            self.engine.rewind(slot, len(sample.prefix))
        elif slot < len(before):
            self.engine.rewind(slot, 0)
        elif self.kept is not None and self.kept.is_open:
            self.kept.lend(sample)
            self.engine.rewind(slot, sample.fed)

    def _prefill(self, sample: Sample) -> Logits:
        """Return the logits after a sample's window: [1, V]."""
        sample.needs_prefill = False
        if sample.prefix_logits is not None:
            return sample.prefix_logits
        slot = self.active.index(sample)
        ids = sample.window[sample.fed : sample.start]
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
        ids = [sample.window[sample.fed] for sample in self.active]
        started = time.perf_counter()
        logits = self.engine.decode(ids)  # [n, V]
        self.counts.decode_seconds += time.perf_counter() - started
        self.counts.decode_tokens += len(ids)
        places = {}
        for place, sample in enumerate(self.active):
            sample.fed += 1
            places[sample] = place
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
                yield samples[0].chunk(samples[0].fail(error))
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
                self.active[slot : slot + 1] = [sample]  # before the engine may fail
                self.engine.fork(slots[parent], slot)
            self.active[slot : slot + 1] = [sample]
        for slot in sorted(spare, reverse=True):
            self._release(slot)


def _shares_prefix(active: Sample, waiting: Sample) -> bool:
    known = active.prefix_logits is not None and not waiting.slid
    return known and active.prefix == waiting.prefix
