"""What the loop needs of its surroundings, and what it tells of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.model_folder import ModelShape

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
        """How many slots are to be active at once; a search with more beams runs alone."""
        ...

    @property
    def most_slots(self) -> int:
        """How many slots there can be for a search that needs more."""
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

        A request with beams comes once, as its first sample: one search makes them all. With `wait`
        it may take a moment to say that there is none: nothing else is to be done.
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
