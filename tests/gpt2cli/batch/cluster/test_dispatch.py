"""Claims about which worker runs which record: nothing lost, nothing twice, in order, soon.

A record takes a second, and a worker runs four at once, where nothing else is said.
"""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.batch.cluster.dispatch import Dispatcher
from gpt2cli.batch.cluster.messages import Event, Ready, Refused, Reply
from gpt2cli.errors import Gpt2Error, ModelError
from gpt2cli.resumable.input import Line
from tests.gpt2cli.batch.cluster.fakes import FakeSource, FakeWorkers, prompts


class Harness:
    """A run, with what it has shown and noted."""

    def __init__(self, workers: FakeWorkers, *, admitted: tuple[int, ...] | None = None) -> None:
        self.workers = workers
        self.shown: list[int] = []
        self.notes: list[str] = []
        nodes = None if admitted is None else {f"node{number}" for number in admitted}

        def admit(ready: Ready) -> str | None:
            return None if nodes is None or ready.node in nodes else f"{ready.node} is other"

        self.dispatcher = Dispatcher(workers, self.notes.append, admit, clock=workers.clock)

    def run(self, records: Iterator[bytes] | int, *, until: float = 1e6) -> FakeSource:
        """Run to the end, or to a time."""
        source = FakeSource(prompts(records) if isinstance(records, int) else records)

        def show(line: Line) -> None:
            self.shown.append(line.index)

        self.dispatcher.run(source, show, lambda: self.workers.now > until)
        return source


@given(
    speeds=st.lists(st.sampled_from([0.1, 1.0, 3.0]), min_size=1, max_size=4),
    kills=st.lists(st.tuples(st.integers(1, 4), st.floats(0, 60)), max_size=12),
    seconds=st.lists(st.sampled_from([0.1, 1.0, 9.0]), min_size=1, max_size=9),
    records=st.integers(0, 120),
)
def test_every_record_is_shown_once_in_order_whatever_workers_do(
    speeds: list[float], kills: list[tuple[int, float]], seconds: list[float], records: int
) -> None:
    workers = FakeWorkers(speeds, seconds=lambda index: seconds[index % len(seconds)])
    workers.begin(len(speeds) + 1, at=20.0)  # one comes later, and dies less than five times
    for worker, at in kills:
        if worker <= len(speeds):
            workers.kill(worker, at=at)
    harness = Harness(workers)
    harness.run(records)
    assert harness.shown == list(range(records))


def test_no_slot_waits_for_the_longest_record() -> None:
    """Of one that takes a hundred times as long, the others of the window are done meanwhile."""
    workers = FakeWorkers([1.0], seconds=lambda index: 100.0 if index == 0 else 1.0)
    harness = Harness(workers)
    harness.run(64)
    others = [workers.finished[index] for index in range(1, 64)]
    assert max(others) <= 63 / 3 + 1  # three slots run the others
    assert harness.shown == list(range(64))


def test_all_slots_of_all_workers_are_kept_full() -> None:
    workers = FakeWorkers([1.0, 1.0, 1.0])
    Harness(workers).run(600)
    assert workers.now <= 600 / (3 * 4) + 3


def test_what_is_in_memory_is_bounded_however_long_one_record_takes() -> None:
    """Of an endless input: so many records for each slot, or so many bytes."""
    for data, most in ((b"prompt", 8 * 40), (bytes(1 << 20), 256)):
        workers = FakeWorkers([1.0], slots=40, seconds=lambda index: 1e9 if index == 0 else 0.1)
        harness = Harness(workers)
        source = harness.run(itertools.repeat(data), until=50)
        assert most // 2 <= source.taken <= most + 1
        assert harness.shown == []


@pytest.mark.parametrize("speed", [0.1, 0.0], ids=["slow", "hangs"])
def test_a_slow_worker_holds_up_no_other(speed: float) -> None:
    """What it has is run by one that has nothing to do, and written once."""
    workers = FakeWorkers([1.0, speed])
    harness = Harness(workers)
    harness.run(200)
    assert harness.shown == list(range(200))
    assert workers.now < 1.3 * 200 / 4


def test_records_are_run_twice_only_where_they_are_late() -> None:
    workers = FakeWorkers([1.0, 1.0])
    Harness(workers).run(30)
    ran = [index for _, indexes in workers.given for index in indexes]
    assert sorted(ran) == list(range(30))


def test_what_a_dead_worker_ran_others_run_first() -> None:
    """And it is given more as soon as it is ready again."""
    workers = FakeWorkers([1.0, 1.0])
    workers.kill(2, at=5.5)
    harness = Harness(workers)
    harness.run(200)
    assert harness.shown == list(range(200))
    assert harness.notes == ["worker 2 begins anew: killed"]
    assert harness.dispatcher.restarts == 1
    assert workers.now < 200 / 8 + 3 + 3


def test_a_worker_that_comes_later_gets_records() -> None:
    workers = FakeWorkers([1.0])
    workers.begin(2, at=10.0)
    harness = Harness(workers)
    harness.run(200)
    assert harness.dispatcher.states[2].records > 60


def test_a_worker_that_dies_again_and_again_is_given_up() -> None:
    workers = FakeWorkers([1.0, 1.0], seconds=lambda index: 10.0)
    for life in range(5):
        workers.kill(2, at=1.0 + 4 * life)
    harness = Harness(workers)
    harness.run(60)
    assert harness.shown == list(range(60))
    died = "it died again and again without finishing a record: killed"
    told = f"going on without worker 2: {died}"
    assert harness.notes[-1] == told


def test_the_last_worker_that_is_given_up_is_the_end() -> None:
    workers = FakeWorkers([1.0], seconds=lambda index: 10.0)
    for life in range(5):
        workers.kill(1, at=1.0 + 4 * life)
    with pytest.raises(ModelError, match=r"^no worker can run: it died again and again "):
        Harness(workers).run(60)


def test_a_record_that_kills_its_workers_is_named() -> None:
    """Though they finished others."""

    class Killing(FakeWorkers):
        def send(self, worker: int, parcels: "list[tuple[int, bytes | str]]") -> None:  # type: ignore[override]
            super().send(worker, parcels)
            if any(index == 7 for index, _ in parcels):
                self.kill(worker, at=self.now + 2.5)

    seconds = lambda index: 9.0 if index == 7 else 1.0  # noqa: E731
    workers = Killing([1.0, 1.0], slots=8, loading=0.1, seconds=seconds)
    with pytest.raises(Gpt2Error, match=r"^workers died again and again when they ran record 7: "):
        Harness(workers).run(2000)


def test_a_worker_that_tells_of_a_failure_begins_anew() -> None:
    class Failing(FakeWorkers):
        def wait(self, seconds: float) -> "list[tuple[int, Event]]":
            events = list(super().wait(seconds))
            if self.now > 3 and not self.failed:
                self.failed = True
                self.kill(1, at=self.now)
                super().wait(0.0)  # its death, which it tells of itself
                return [(1, Reply([], "MemoryError: no room"))]
            return events

        failed = False

    harness = Harness(Failing([1.0]))
    harness.run(60)
    assert harness.shown == list(range(60))
    assert harness.notes == ["worker 1 begins anew: MemoryError: no room"]


def test_workers_that_may_not_work_with_the_others_are_told_of() -> None:
    harness = Harness(FakeWorkers([1.0, 1.0]), admitted=(1,))
    harness.run(60)
    assert harness.notes == ["going on without worker 2: node2 is other"]
    assert {worker for worker, _ in harness.workers.given} == {1}


def test_what_no_worker_could_do_ends_the_run() -> None:
    class Refusing(FakeWorkers):
        def wait(self, seconds: float) -> "list[tuple[int, Event]]":
            return [(2, Refused("node2 has gpt2 9", for_all=True))]

    with pytest.raises(ModelError, match=r"^no worker can run: node2 has gpt2 9$"):
        Harness(Refusing([1.0, 1.0])).run(60)


def test_prompts_that_begin_alike_go_to_one_worker() -> None:
    """As far as they are read together."""
    named = {n: b"%s %d" % ([b"red", b"green"][n % 2], n) for n in range(48)}
    workers = FakeWorkers([1.0, 1.0], slots=16)
    Harness(workers).run(prompts(48, named))
    for _, indexes in workers.given[:2]:
        assert len({index % 2 for index in indexes}) == 1


def test_an_interrupted_run_shows_only_what_is_whole_and_in_order() -> None:
    harness = Harness(FakeWorkers([1.0, 0.1]))
    harness.run(200, until=10)
    assert 0 < len(harness.shown) < 200
    assert harness.shown == list(range(len(harness.shown)))
