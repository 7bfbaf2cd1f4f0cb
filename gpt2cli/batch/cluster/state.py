"""What the driver knows of its workers and records, and what it needs of those who carry both."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gpt2cli.batch.cluster.messages import Event, Parcel, Ready
from gpt2cli.resumable.input import InputRecord

# A worker has twice as many records as run there at once, so that none of its slots waits for the
# next reply, even where all finish together.
_PER_SLOT: Final = 2


class Workers(Protocol):
    """What carries records to workers and their replies back."""

    def send(self, worker: int, parcels: Sequence[Parcel]) -> None:
        """Give records to a worker that waits for none of our replies; a `Reply` will come."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        """Return what has come from workers, at the latest after some seconds."""
        ...

    def restart(self, worker: int) -> None:
        """Let a worker begin anew; it will be `Ready`, once its machine can run it."""
        ...

    def drop(self, worker: int) -> int:
        """Give a worker up; return how many are left."""
        ...


class Source(Protocol):
    """Where the records come from."""

    @property
    def ended(self) -> bool:
        """Whether no record will come any more."""
        ...

    def take_record(self, *, wait: bool) -> InputRecord | None:
        """Return the next record; None if there is none now, with `wait` after a moment."""
        ...


@dataclass(slots=True)
class WorkerState:
    """A worker as the driver knows it."""

    ready: Ready
    up: bool = True
    running: set[int] = field(default_factory=set)  # records that it has not finished
    restarts: int = 0
    records: int = 0
    tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Its tokens per second since it was first ready."""
        return self.tokens / max(time.monotonic() - self.began, 1e-9)

    @property
    def room(self) -> int:
        """How many more records it may have."""
        return _PER_SLOT * self.ready.slots - len(self.running)


@dataclass(slots=True)
class Job:
    """A record that is not finished."""

    parcel: Parcel
    workers: set[int] = field(default_factory=set)  # that run it
    blame: int = 0  # for deaths of workers that ran it
    given: float = 0.0  # when, the last time

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.parcel[1])
