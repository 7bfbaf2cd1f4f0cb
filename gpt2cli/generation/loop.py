"""Runs samples side by side in the engine's slots.

It passes logits on unopened: the engine makes them, the sampler reads them.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.kept import KeptSlot
from gpt2cli.generation.requests import Chunk, PreparedRequest
from gpt2cli.generation.sample import Sample
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer

Logits = NDArray[np.float32]


class LogitsEngine(Protocol):
    """What the loop needs of an engine; `gpt2cli.engine.Engine` is one, a test may script one.

    Active slots are always 0 … n−1.
    """

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        ...

    @property
    def max_slots(self) -> int:
        """How many slots there can be at once."""
        ...

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
        """Append ids to a slot; logits after the ids at `positions`: [K, V]."""
        ...

    def decode(self, ids: Sequence[int]) -> Logits:
        """Append one id to every slot; logits after each, [n, V], valid until the next call."""
        ...

    def fork(self, source: int, target: int) -> None:
        """Copy a slot over another or to the next free one."""
        ...

    def rewind(self, slot: int, length: int) -> None:
        """Forget a slot's tokens from `length` on."""
        ...

    def free(self, slot: int) -> None:
        """Close a slot; the last one moves into its place."""
        ...


class SampleSource(Protocol):
    """Gives samples to run as they come."""

    @property
    def ended(self) -> bool:
        """Whether no sample will come any more."""
        ...

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the request and the number of the next sample; None if there is none now.

        With `wait` it may take a moment to say so: nothing else is to be done.
        """
        ...


@dataclass(slots=True)
class Counts:
    """What a run has done so far, for statistics; times in seconds."""

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    sample_seconds: float = 0.0


def generate(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    requests: Iterable[PreparedRequest],
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    kept: KeptSlot | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of all samples as they are made; `counts` is kept up to date meanwhile.

    A finished sample's slot is taken by the next one at once. What a sample yields depends on its
    request alone: each prompt is prefilled by itself. Once `interrupted` says so, the samples that
    run finish with what they have and no other begins. Closing the iterator stops all work.

    With `kept`, for runs of one sample each, the slot stays open between them: a prompt that begins
    as the one before went on is prefilled from there, so the text depends on what came before.
    """
    return generate_from(
        _IterableSource(iter(requests)),
        engine,
        tokenizer,
        sampler,
        counts=counts,
        interrupted=interrupted,
        kept=kept,
    )


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
    """Do as `generate` with samples that may come later: those that run never wait for them."""
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
            (prepared, number)
            for prepared in requests
            for number in range(prepared.request.samples)
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

    def run(self, source: SampleSource) -> Iterator[Chunk]:
        """Yield chunks until nothing is active and nothing will come."""
        while not self.interrupted():
            yield from self._refill(source)
            slid = [slot for slot, sample in enumerate(self.active) if sample.needs_prefill]
            for slot in slid:
                yield from self._prefill(slot)
            if not self.active and source.ended:
                return
            if self.active and not slid:  # else some may have finished: refill first
                yield from self._decode()
        for sample in self.active:
            if not sample.finished:
                yield sample.chunk(sample.interrupt())

    def close(self) -> None:
        """Free every slot."""
        while self.active:
            self._release(len(self.active) - 1)

    def _refill(self, source: SampleSource) -> Iterator[Chunk]:
        """Give finished samples' slots, then free ones, to waiting samples; close the rest."""
        slot = 0
        while slot < self.engine.max_slots and not self.interrupted():
            if slot < len(self.active) and not self.active[slot].finished:
                slot += 1
                continue
            waiting = source.take(wait=all(other.finished for other in self.active))
            if waiting is None:
                break
            sample = Sample(self.tokenizer, *waiting, self.engine.shape.n_positions)
            if sample.finished:  # nothing is to be drawn at all
                yield sample.chunk("")
                continue
            self._place(sample, slot)
            yield from self._prefill(slot)
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

    def _place(self, sample: Sample, slot: int) -> None:
        """Put a sample into a slot, with its prompt's cache where some slot still begins with it.

        A request's samples thus share one prefill, and so do equal prompts that meet.
        """
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
        elif self.kept is not None and self.kept.fed:
            self.kept.lend(sample)
            self.engine.rewind(slot, sample.fed)
        self.active[slot : slot + 1] = [sample]

    def _prefill(self, slot: int) -> Iterator[Chunk]:
        """Make the logits after a sample's window and draw an id from them."""
        sample = self.active[slot]
        sample.needs_prefill = False
        logits = sample.prefix_logits
        if logits is None:
            if sample.slid:
                self.engine.rewind(slot, 0)
            ids = sample.window[sample.fed :]
            started = time.perf_counter()
            logits = self.engine.extend(slot, ids, [len(ids) - 1])  # [1, V]
            self.counts.prefill_seconds += time.perf_counter() - started
            self.counts.prefill_tokens += len(ids)
            sample.feed(len(ids))
            if not sample.slid:
                sample.prefix_logits = logits
        yield from self._draw(logits, [sample])

    def _decode(self) -> Iterator[Chunk]:
        """Draw the next id of every active sample."""
        ids = [sample.window[-1] for sample in self.active]
        started = time.perf_counter()
        logits = self.engine.decode(ids)  # [n, V]
        self.counts.decode_seconds += time.perf_counter() - started
        self.counts.decode_tokens += len(ids)
        for sample in self.active:
            sample.fed += 1
        yield from self._draw(logits, self.active)

    def _draw(self, logits: Logits, samples: Sequence[Sample]) -> Iterator[Chunk]:
        started = time.perf_counter()
        ids = self.sampler.step(logits, [sample.row for sample in samples])
        self.counts.sample_seconds += time.perf_counter() - started
        for sample, token_id in zip(samples, ids, strict=True):
            text = sample.take(token_id)
            if text or sample.finished:
                yield sample.chunk(text)


def _shares_prefix(active: Sample, waiting: Sample) -> bool:
    return active.prefix_logits is not None and active.prefix == waiting.prefix
