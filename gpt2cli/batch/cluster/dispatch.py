"""Which records go to which worker, and in which order their results are written.

Nothing here knows what carries the messages. Whatever workers do, each record's lines are written
once, after those of all records before it.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from gpt2cli.batch.cluster.messages import Event, Gone, Parcel, Ready, Refused, Reply, pack
from gpt2cli.batch.cluster.state import Job, Source, Workers, WorkerState
from gpt2cli.errors import Gpt2Error, ModelError
from gpt2cli.resumable.input import Line

_WINDOW_PER_SLOT: Final = 8  # records that are read and not yet written, for each slot
_FEWEST_READ: Final = 64
_MOST_BYTES: Final = 1 << 28  # of those records and of their lines
# Deaths of workers that ran a record, after which it is taken for the reason; one of a worker that
# ran nothing else counts as several.
_MOST_BLAME: Final = 25
_ALONE: Final = 5
# In a row, of a worker that finishes nothing: deaths once it was ready, and starts that failed.
_MOST_VAIN_STARTS: Final = 5
_MOST_STARTS: Final = 25
_WEIGHT: Final = 0.05  # of a record in the mean time that records take
_LATE: Final = 3.0  # times as long as usual: then an idle worker runs a record too
_LATE_SECONDS: Final = 1.0
_OLDEST: Final = 256  # records that are looked at for that
_MOMENT: Final = 0.05  # seconds: so long new input may wait while workers run


class Dispatcher:
    """One run over an input."""

    def __init__(
        self,
        workers: Workers,
        note: Callable[[str], None],
        admit: Callable[[Ready], str | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admit` returns why a worker that is ready may not work with the others, if so."""
        self._workers = workers
        self._note = note
        self._admit = admit
        self._clock = clock
        self.states: dict[int, WorkerState] = {}
        self._listening: set[int] = set()  # workers that can be given records now
        self._window = _FEWEST_READ  # how many records may be read and not written
        self._jobs: dict[int, Job] = {}
        self._queue: deque[int] = deque()  # records that no worker has
        self._order: deque[int] = deque()  # records that are not written
        self._finished: dict[int, list[Line]] = {}  # that wait for older ones
        self._bytes = 0  # of records and lines in memory
        self._vain_starts: Counter[int] = Counter()  # of each worker, since it finished anything
        self._usual = 0.0  # seconds from giving a record to its reply, a mean of the last ones

    @property
    def alive(self) -> int:
        """How many workers can be given records."""
        return sum(state.up for state in self.states.values())

    @property
    def restarts(self) -> int:
        """How often workers have died so far."""
        return sum(state.restarts for state in self.states.values())

    def run(
        self, source: Source, show: Callable[[Line], None], interrupted: Callable[[], bool]
    ) -> None:
        """Show the lines of all records until the input ends, or it is interrupted.

        Raises:
            Gpt2Error: if the input cannot be read, no worker is left, or a record kills them.
        """
        while not interrupted():
            self._read(source)
            self._send()
            if not self._order and source.ended:
                return
            self.listen(_MOMENT if self._jobs else 0.0)
            self._write(show)

    def listen(self, seconds: float) -> None:
        """Take what workers tell, at the latest after some seconds.

        Raises:
            Gpt2Error: if no worker is left, or a record kills them.
        """
        for worker, event in self._workers.wait(seconds):
            self._hear(worker, event)

    def _hear(self, worker: int, event: Event) -> None:
        match event:
            case Ready():
                self._welcome(worker, event)
            case Reply():
                self._take(worker, event)
            case Gone(reason):
                self._lose(worker, reason)
            case Refused(reason, for_all):
                self._give_up(worker, reason, for_all=for_all)

    def _welcome(self, worker: int, ready: Ready) -> None:
        reason = self._admit(ready)
        if reason is not None:
            self._give_up(worker, reason)
            return
        state = self.states.setdefault(worker, WorkerState(ready))
        state.ready, state.up = ready, True
        self._listening.add(worker)
        self._count_window()

    def _take(self, worker: int, reply: Reply) -> None:
        state = self.states[worker]
        self._listening.add(worker)
        for lines in reply.done:
            self._finish(state, lines)
        if reply.done:
            self._vain_starts.pop(worker, None)
        if reply.failure is not None:
            self._lose(worker, reply.failure)

    def _finish(self, state: WorkerState, lines: list[Line]) -> None:
        index = lines[0].index
        state.running.discard(index)
        state.records += 1
        state.tokens += sum(line.tokens for line in lines)
        job = self._jobs.pop(index, None)
        if job is None:  # another worker was faster
            return
        self._usual += (self._clock() - job.given - self._usual) * _WEIGHT
        self._finished[index] = lines
        self._bytes += sum(len(line.text) for line in lines) - job.size

    def _lose(self, worker: int, reason: str) -> None:
        """Let others have what a worker ran, and begin it anew."""
        state = self.states.get(worker)
        was_up = state is not None and state.up
        if state is not None and was_up:
            self._give_back(state, worker, reason)
            state.restarts += 1
        # One that was not up may wait for a machine; it is asked for longer.
        self._vain_starts[worker] += _MOST_STARTS // _MOST_VAIN_STARTS if was_up else 1
        if self._vain_starts[worker] >= _MOST_STARTS:
            self._give_up(worker, f"it died again and again without finishing a record: {reason}")
            return
        if was_up:
            self._note(f"worker {worker} begins anew: {reason}")
        self._workers.restart(worker)

    def _give_back(self, state: WorkerState, worker: int, reason: str) -> None:
        state.up = False
        self._listening.discard(worker)
        lost = sorted(state.running, reverse=True)
        state.running.clear()
        for index in lost:
            job = self._jobs.get(index)
            if job is None:
                continue
            job.workers.discard(worker)
            job.blame += 1 if len(lost) > 1 else _ALONE
            if job.blame >= _MOST_BLAME:
                fault = f"workers died again and again when they ran record {index}: {reason}"
                raise Gpt2Error(fault, "{resume} continues before it")
            if not job.workers:
                self._queue.appendleft(index)

    def _give_up(self, worker: int, reason: str, *, for_all: bool = False) -> None:
        state = self.states.pop(worker, None)
        if state is not None:
            self._give_back(state, worker, reason)
            self._count_window()
        left = self._workers.drop(worker)
        if for_all or not left:
            raise ModelError(f"no worker can run: {reason}")
        self._note(f"going on without worker {worker}: {reason}")

    def _count_window(self) -> None:
        slots = sum(state.ready.slots for state in self.states.values())
        self._window = max(_FEWEST_READ, _WINDOW_PER_SLOT * slots)

    def _read(self, source: Source) -> None:
        """Read records while there is room for a good part of all that may be there."""
        window = self._window
        if len(self._order) > window - window // 4 or self._bytes > _MOST_BYTES:
            return
        read: list[Parcel] = []
        while len(self._order) < window and self._bytes <= _MOST_BYTES:
            record = source.take_record(wait=not self._order)
            if record is None:
                break
            parcel = pack(record)
            read.append(parcel)
            self._order.append(record.index)
            self._jobs[record.index] = Job(parcel)
            self._bytes += self._jobs[record.index].size
        # Prompts that begin alike go to one worker, which then reads their beginning once.
        read.sort(key=lambda parcel: parcel[1] if isinstance(parcel[1], bytes) else b"")
        self._queue.extend(index for index, _ in read)

    def _send(self) -> None:
        listening = [(worker, self.states[worker]) for worker in self._listening]
        with_room = sum(state.room > 0 for _, state in listening)
        # All get a part where there are too few for all, as at the end.
        share = -(-len(self._queue) // max(1, with_room))
        idle = []
        for worker, state in listening:
            count = min(state.room, share, len(self._queue))
            chosen = [self._queue.popleft() for _ in range(count)]
            if chosen or state.running:
                self._give(worker, state, chosen)
            else:
                idle.append((worker, state))
        if idle and self._jobs:
            self._help(idle)

    def _help(self, idle: Iterable[tuple[int, WorkerState]]) -> None:
        late = self._find_late()
        for worker, state in idle:
            if late:
                self._give(worker, state, late[: state.room])
                del late[: state.room]

    def _give(self, worker: int, state: WorkerState, chosen: Sequence[int]) -> None:
        for index in chosen:
            job = self._jobs[index]
            job.workers.add(worker)
            job.given = self._clock()
        state.running.update(chosen)
        self._listening.discard(worker)
        self._workers.send(worker, [self._jobs[index].parcel for index in chosen])

    def _find_late(self) -> list[int]:
        """Return those of the oldest records that only one worker has, for longer than usual.

        So a machine that is slow, or hangs, holds up no other one for long.
        """
        before = self._clock() - max(_LATE_SECONDS, _LATE * self._usual)
        oldest = ((i, self._jobs.get(i)) for i in islice(self._order, _OLDEST))
        return [
            index
            for index, job in oldest
            if job is not None and len(job.workers) == 1 and job.given < before
        ]

    def _write(self, show: Callable[[Line], None]) -> None:
        while self._order and (lines := self._finished.pop(self._order[0], None)) is not None:
            self._order.popleft()
            self._bytes -= sum(len(line.text) for line in lines)
            for line in lines:
                show(line)
