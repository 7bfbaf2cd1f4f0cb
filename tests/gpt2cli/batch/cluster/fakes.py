"""Workers and a source without machines: time is a number, and a record takes as long as asked."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpt2cli.batch.cluster.messages import Event, Gone, Parcel, Ready, Reply
from gpt2cli.resumable.input import InputRecord, Line

_SILENCE = 0.5  # seconds after which a worker answers in any case


def make_ready(worker: int, slots: int = 4) -> Ready:
    return Ready(
        node=f"node{worker}",
        slots=slots,
        most_beams=4,
        threads=1,
        device="cpu",
        fingerprint="weights",
        versions={"onnxruntime": "1"},
        bits="same",
    )


def make_line(index: int) -> Line:
    return Line(index, 0, "digest", f"{index}\n", None, 1, (), ())


@dataclass
class _Worker:
    speed: float  # of usual; 0: it hangs
    life: int = 0  # counts its deaths: what an earlier life promised does not come
    slots_free: list[float] = field(default_factory=list)  # when each slot is free
    ends: list[tuple[float, int]] = field(default_factory=list)  # of the records that it has


class FakeWorkers:
    """Workers in a time of their own, `now`, which only waiting moves."""

    def __init__(
        self,
        speeds: Sequence[float],
        *,
        slots: int = 4,
        seconds: Callable[[int], float] = lambda index: 1.0,
        loading: float = 3.0,
    ) -> None:
        """Make workers 1, 2, …; `seconds`: how long a record takes at speed 1."""
        self.now = 0.0
        self.given: list[tuple[int, list[int]]] = []  # every time: the worker, and the records
        self.finished: dict[int, float] = {}  # record -> when a worker first had it done
        self._slots = slots
        self._seconds = seconds
        self._loading = loading
        self._workers = {number: _Worker(speed) for number, speed in enumerate(speeds, start=1)}
        self._events: list[tuple[float, int, int, int, Callable[[], Event]]] = []
        self._order = itertools.count()
        for number in self._workers:
            self.begin(number, at=0.0)

    def begin(self, worker: int, *, at: float) -> None:
        """Let a worker be ready at a time."""
        self._workers.setdefault(worker, _Worker(1.0))
        self._plan(at, worker, lambda: make_ready(worker, self._slots))

    def kill(self, worker: int, *, at: float) -> None:
        """Let a worker die at a time."""
        heapq.heappush(self._events, (at, next(self._order), worker, -1, lambda: Gone("killed")))

    def clock(self) -> float:
        return self.now

    def send(self, worker: int, parcels: Sequence[Parcel]) -> None:
        self.given.append((worker, [index for index, _ in parcels]))
        state = self._workers[worker]
        if not state.slots_free:
            state.slots_free = [self.now] * self._slots
        for index, _ in parcels:
            begin = max(self.now, heapq.heappop(state.slots_free))
            end = begin + self._seconds(index) / state.speed if state.speed else math.inf
            heapq.heappush(state.slots_free, end)
            heapq.heappush(state.ends, (end, index))
        if state.speed:
            count = min(len(state.ends), self._slots // 4 + 1)  # which are worth telling
            told = heapq.nsmallest(count, state.ends)[-1][0]
            at = max(self.now, min(told, self.now + _SILENCE))
            self._plan(at, worker, lambda: self._reply(state))

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        until = self.now + seconds
        found: list[tuple[int, Event]] = []
        while self._events and (not found or self._events[0][0] <= self.now):
            at, _, worker, life, event = self._events[0]
            if at > until:
                break
            heapq.heappop(self._events)
            state = self._workers.get(worker)
            if state is None or life not in (-1, state.life):
                continue
            self.now = max(self.now, at)
            if life == -1:
                state.life += 1
                state.slots_free, state.ends = [], []
            found.append((worker, event()))
        if not found:
            self.now = until
        return found

    def restart(self, worker: int) -> None:
        self.begin(worker, at=self.now + self._loading)

    def drop(self, worker: int) -> int:
        self._workers.pop(worker)
        return len(self._workers)

    def _plan(self, at: float, worker: int, event: Callable[[], Event]) -> None:
        life = self._workers[worker].life
        heapq.heappush(self._events, (at, next(self._order), worker, life, event))

    def _reply(self, state: _Worker) -> Reply:
        done = []
        while state.ends and state.ends[0][0] <= self.now:
            _, index = heapq.heappop(state.ends)
            self.finished.setdefault(index, self.now)
            done.append([make_line(index)])
        return Reply(done)


class FakeSource:
    """Gives records, all there from the beginning."""

    def __init__(self, records: Iterator[bytes]) -> None:
        self._records = enumerate(records)
        self.taken = 0
        self.ended = False

    def take_record(self, *, wait: bool) -> InputRecord | None:
        index, data = next(self._records, (0, None))
        self.ended = data is None
        if data is None:
            return None
        self.taken += 1
        return InputRecord(index, data)


def prompts(count: int, named: Mapping[int, bytes] | None = None) -> Iterator[bytes]:
    """Yield prompts of some bytes, of which some may be given."""
    for number in range(count):
        yield (named or {}).get(number, b"prompt")
