"""Runs records through the shared loop and hands the results on in the order of the input."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpt2cli.batch.items import BatchItem, ItemSource
from gpt2cli.generation import (
    Chunk,
    Counts,
    Finish,
    FinishReason,
    PreparedRequest,
    generate_from,
)
from gpt2cli.loading import LoadedModel

# Records that may be begun before the oldest unfinished one is done, for each slot.
_WINDOW_PER_SLOT: Final = 8


@dataclass(slots=True)
class SampleResult:
    """What one sample has so far."""

    completion: list[str] = field(default_factory=list)
    finish: Finish | None = None


@dataclass(slots=True)
class Group:
    """All results of one input record, in the order of its samples."""

    item: BatchItem
    samples: list[SampleResult]

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        return all(sample.finish is not None for sample in self.samples)


class BatchRun:
    """One run over an input. `sink` is called with each group as soon as all before it are done.

    What is read ahead, and what is finished but must wait for an older record, is bounded.
    """

    def __init__(
        self,
        items: ItemSource,
        sink: Callable[[Group], None],
        *,
        slots: int,
        first_index: int = 0,
    ) -> None:
        """`first_index` is that of the first item that `items` will give."""
        self._items = items
        self._sink = sink
        self._window = _WINDOW_PER_SLOT * slots
        self._oldest_index = first_index  # of the group to be handed on next
        self._groups: dict[int, Group] = {}

    @property
    def ended(self) -> bool:
        """Whether no request will come any more."""
        return self._items.ended

    def run(self, model: LoadedModel, counts: Counts, interrupted: Callable[[], bool]) -> None:
        """Work until the input ends or `interrupted` says so; then unfinished groups are dropped.

        Raises:
            Gpt2Error: if the input cannot be read or the model fails.
        """
        chunks = generate_from(
            self,
            model.engine,
            model.tokenizer,
            model.sampler,
            counts=counts,
            interrupted=interrupted,
        )
        for chunk in chunks:
            self._accept(chunk)

    def take(self, *, wait: bool) -> PreparedRequest | None:
        """Return the next request; records that have none are answered on the way."""
        while len(self._groups) < self._window:
            item = self._items.take(wait=wait)
            if item is None:
                return None
            samples = 0 if item.prepared is None else item.prepared.request.samples
            self._groups[item.index] = Group(item, [SampleResult() for _ in range(samples)])
            if item.prepared is not None:
                return item.prepared
            self._hand_on()
        return None

    def _accept(self, chunk: Chunk) -> None:
        result = self._groups[chunk.index].samples[chunk.sample]
        result.completion.append(chunk.text)
        if chunk.finish is not None and chunk.finish.reason is not FinishReason.INTERRUPTED:
            result.finish = chunk.finish
            self._hand_on()

    def _hand_on(self) -> None:
        while (group := self._groups.get(self._oldest_index)) is not None and group.done:
            self._sink(group)
            del self._groups[self._oldest_index]
            self._oldest_index += 1
