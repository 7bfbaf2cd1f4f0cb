"""What a batch on a cluster costs, and what the command that feeds it can feed. Needs Ray.

    python -m tests.bench.cluster overhead MODEL FOLDER [--records N] [--rounds N]
    python -m tests.bench.cluster many FOLDER [--workers N]
    python -m tests.bench.cluster messages

`overhead`: one worker, and two of one core each, beside `gpt2 batch` without a cluster. `many`: the
driver of 1,000 workers whose engine is a clock, without Ray. `messages`: what Ray takes for one.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from gpt2cli.batch.cluster.dispatch import Dispatcher
from gpt2cli.batch.cluster.messages import Event, Parcel, Reply
from gpt2cli.resumable.input import InputRecord, Line
from tests.gpt2cli.batch.cluster.fakes import FakeWorkers

_CLUSTER: Final = ("--cluster", "local", "--cpus-per-worker")
_PROMPT: Final = b'{"prompt": "Once upon a time there was a little girl who %d"}'
_SLOTS: Final = 16
_MARK: Final = "GPT2_BENCH"  # in the environment of all that is started
_LINE_BYTES: Final = 600  # of a record of 50 tokens


def measure_overhead(model: str, folder: pathlib.Path, records: int, rounds: int) -> Any:
    """Return the processor's seconds for a record, of runs in turn, each round a list.

    What a start takes is not among them: it is what more records take than a few.
    """
    ways = {
        "here, one thread": ("--threads", "1"),
        "one worker of one core": (*_CLUSTER, "1", "--workers", "1"),
        "two workers of one core": (*_CLUSTER, "1", "--workers", "2"),
    }
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    few = _SLOTS
    for _ in range(rounds):
        for way, options in ways.items():
            used = [run_once(model, folder, count, options) for count in (few, few + records)]
            parts = {part: (used[1][part] - used[0][part]) / records for part in used[0]}
            found[way].append(parts)
            print(way, parts, file=sys.stderr, flush=True)
    return found


def run_once(
    model: str, folder: pathlib.Path, records: int, options: Sequence[str]
) -> dict[str, float]:
    """Return the seconds of the processor that a batch took, by process."""
    prompts = folder / "prompts.jsonl"
    prompts.write_bytes(b"\n".join(_PROMPT % n for n in range(records)))
    command = [sys.executable, "-m", "gpt2cli", "batch", str(prompts), "-m", model, "-q"]
    command += ["-n", "48", "--ignore-eos", "--seed", "1", "-o", "/dev/null", *options]
    command += ["--batch-size", str(_SLOTS)]
    process = subprocess.Popen(command, env=os.environ | {_MARK: str(os.getpid())})
    used: dict[str, float] = {}
    while process.poll() is None:
        used |= read_processes()
        time.sleep(0.05)
    assert process.returncode == 0
    workers = sum(seconds for name, seconds in used.items() if "ray::Worker" in name)
    driver = sum(seconds for name, seconds in used.items() if "gpt2cli" in name)
    return {
        "model": workers or driver,
        "driver": driver if workers else 0.0,
        "ray": sum(used.values()) - workers - driver,
    }


def read_processes() -> dict[str, float]:
    """Return the seconds of the processor so far of each process that we started."""
    mark = f"{_MARK}={os.getpid()}".encode()
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                name = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks = int(fields[11]) + int(fields[12])  # proc(5): in user and kernel mode
                kind = "ray::Worker" if name.startswith("ray::Worker") else name
                found[f"{entry.name} {kind}"] = ticks / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return found


class TimedWorkers(FakeWorkers):
    """Workers by a clock, with lines of the usual size; their own time is taken off."""

    def __init__(self, count: int, seconds: Callable[[int], float]) -> None:
        super().__init__([1.0] * count, slots=32, seconds=seconds)
        self.own_seconds = 0.0
        self._text = "x" * _LINE_BYTES + "\n"

    def send(self, worker: int, parcels: Sequence[Parcel]) -> None:
        began = time.process_time()
        super().send(worker, parcels)
        self.own_seconds += time.process_time() - began

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        began = time.process_time()
        events = super().wait(seconds)
        for _, event in events:
            if isinstance(event, Reply):
                event.done[:] = [[self._fill(line) for line in lines] for lines in event.done]
        self.own_seconds += time.process_time() - began
        return events

    def _fill(self, line: Line) -> Line:
        return Line(line.index, 0, line.digest, self._text, None, 50, (), ())


class Endless:
    """As many records as are wanted."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    @property
    def ended(self) -> bool:
        return self._next >= self._count

    def take_record(self, *, wait: bool) -> InputRecord | None:
        if self.ended:
            return None
        self._next += 1
        return InputRecord(self._next - 1, _PROMPT % self._next)


def measure_driver(workers: int, records: int) -> dict[str, float]:
    """Return what the driver alone takes for records that take 2 to 8 s each, and its memory."""
    fake = TimedWorkers(workers, lambda index: 2.0 + index * 7919 % 60 / 10)
    dispatcher = Dispatcher(fake, print, lambda ready: None, clock=fake.clock)
    shown = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def show(line: Line) -> None:
        nonlocal shown
        shown += 1

    began = time.process_time()
    dispatcher.run(Endless(records), show, lambda: False)
    taken = time.process_time() - began - fake.own_seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert shown == records
    return {
        "workers": workers,
        "records": records,
        "of_the_workers_seconds": fake.now,
        "workers_records_per_second": records / fake.now,
        "driver_seconds": taken,
        "driver_records_per_second": records / taken,
        "messages": len(fake.given),
        "memory_mb": (peak - before) / 1024,
    }


def measure_messages(count: int) -> Iterator[dict[str, float]]:
    """Yield what Ray takes to send 8 records and get 8 lines, with so many calls under way."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init("local", num_cpus=2, object_store_memory=1 << 28, include_dashboard=False)
    line = Line(0, 0, "0" * 16, "x" * _LINE_BYTES + "\n", None, 50, (), ())

    class Echo:
        async def exchange(self, parcels: Sequence[Parcel]) -> Reply:
            return Reply([[line]] * len(parcels))

    actor = ray.remote(num_cpus=0, max_concurrency=2000)(Echo).remote()
    parcels = [(n, _PROMPT % n) for n in range(8)]
    for under_way in (1, 10, 100, 1000):
        pending = {actor.exchange.remote(parcels) for _ in range(under_way)}
        ray.get(next(iter(pending)))
        done, began, cpu = 0, time.perf_counter(), time.process_time()
        while done < count:
            refs = list(pending)
            ready, _ = ray.wait(refs, num_returns=1, timeout=1)
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                pending.discard(ref)
                ray.get(ref)
                pending.add(actor.exchange.remote(parcels))
                done += 1
        yield {
            "under_way": under_way,
            "messages_per_second": done / (time.perf_counter() - began),
            "driver_ms_of_processor": 1000 * (time.process_time() - cpu) / done,
        }
        ray.get(list(pending))
    ray.shutdown()


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["overhead", "many", "messages"])
    parser.add_argument("places", nargs="*")
    parser.add_argument("--records", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1000)
    asked = parser.parse_args()
    if asked.what == "overhead":
        model, folder = asked.places
        found = measure_overhead(model, pathlib.Path(folder), asked.records, asked.rounds)
        for way, runs in found.items():
            medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(way, {key: round(1000 * value, 2) for key, value in medians.items()}, "ms")
        print(json.dumps(found))
    elif asked.what == "many":
        for workers in (10, 100, asked.workers):
            print(json.dumps(measure_driver(workers, workers * 320)), flush=True)
    else:
        for found in measure_messages(3000):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
