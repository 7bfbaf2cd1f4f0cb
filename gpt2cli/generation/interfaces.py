"""What the loop needs of its surroundings, and what it gives: chunks and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import Gpt2Error
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling.logprobs import TokenLogprob

Logits = NDArray[np.float32]


class Saved(Protocol):
    """A copy of the first tokens of a slot, beside the slots."""

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        ...


class LogitsEngine(Protocol):
    """What the loop needs of an engine; a test may script one. Active slots are always 0 … n−1."""

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        ...

    @property
    def max_slots(self) -> int:
        """How many slots are to be active at once; a search with more beams runs alone."""
        ...

    @property
    def keeps_cuts(self) -> bool:
        """Whether ids that are read have the same bits in one call and in several."""
        ...

    @property
    def most_steps(self) -> int:
        """How many ids `verify` takes at once; 1: there is no need to call it."""
        ...

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
        """Append ids to a slot; logits after the ids at `positions`: [K, V]."""
        ...

    def decode(self, ids: Sequence[int]) -> Logits:
        """Append one id to every slot; logits after each, [n, V], valid until the next call."""
        ...

    def verify(self, slot: int, ids: Sequence[int]) -> Logits:
        """Append ids to a slot with the bits of single steps; logits after each: [K, V]."""
        ...

    def fork(self, source: int, target: int, length: int | None = None) -> None:
        """Copy a slot, or its first tokens, over another or to the next free one."""
        ...

    def save(self, slot: int, length: int) -> Any:
        """Keep a copy (a `Saved`) of a slot's first tokens; None if there is no room for it."""
        ...

    def load(self, saved: Any, slot: int, length: int) -> None:
        """Let an active slot, or the next free one, begin with tokens of such a copy."""
        ...

    def drop(self, saved: Any) -> None:
        """Give such a copy up."""
        ...

    def rewind(self, slot: int, length: int) -> None:
        """Forget a slot's tokens from `length` on."""
        ...

    def free(self, slot: int) -> None:
        """Close a slot; the last one moves into its place."""
        ...


class SampleSource(Protocol):
    """Yields samples to run as they come."""

    @property
    def ended(self) -> bool:
        """Whether no sample will come any more."""
        ...

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the request and the number of the next sample; None if there is none now.

        A request with beams comes once, as its first sample: one search makes them all. With `wait`
        it may block for a moment, since nothing else is to be done.
        """
        ...


@dataclass(slots=True)
class Counts:
    """What a run has done so far, for statistics; times in seconds."""

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    shared_tokens: int = 0  # of prompts, not prefilled, since a slot or a kept prefix had them
    kept_bytes: int = 0  # the most that kept prefixes took
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    sample_seconds: float = 0.0


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # EOS or a stop sequence
    LENGTH = "length"  # max_new_tokens
    CONTEXT = "context"  # n_positions
    TIME = "time"  # max_time
    INTERRUPTED = "interrupted"
    ERROR = "error"  # its options forbade every token


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How one sample ended. Tokens are those drawn, without EOS."""

    reason: FinishReason
    stop_sequence: str | None
    prompt_tokens: int
    completion_tokens: int
    truncated_prompt_tokens: int = 0  # tokens of the prompt that the model did not see at all
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each token; None: not asked for
    error: Gpt2Error | None = None  # why it could not go on


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one sample's completion; the last one of a sample carries its finish."""

    index: int
    sample: int
    text: str
    finish: Finish | None = None
    # Drawn since the last chunk, if logprobs are asked for; the text of the last ones may follow.
    logprobs: tuple[TokenLogprob, ...] = ()
    drawn: int = 0  # tokens of the sample so far
