"""Measures how fast a model runs on this machine: loading, first token, prefill, decode, memory.

Speed does not depend on which ids are fed, so they are random ones with a fixed seed.
"""

import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Final

from gpt2cli.bench.config import BenchConfig
from gpt2cli.config import GenerationConfig, ModelConfig, SamplingConfig
from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import LogitsEngine
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.machine import find_cpu_name, read_peak, reset_peak
from gpt2cli.record_lines import format_record
from gpt2cli.records import describe_model
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.statistics import describe_conditions
from gpt2cli.terminal.tables import format_table

Clock = Callable[[], float]  # seconds; only differences count

_FIRST_TOKEN_PROMPT: Final = 32
_DECODE_PROMPT: Final = 64
_DECODE_STEPS: Final = 32
_PROMPT_LENGTHS: Final = (32, 128, 512)
_SMALLEST_CONTEXT: Final = 4  # of a model that can decode two tokens after one

_HEADER: Final = ("MEASURE", "BATCH", "PROMPT", "NEW", "MEDIAN", "MIN", "MAX", "UNIT", "PEAK-MB")
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is measured, and under which conditions."""

    name: str  # load, first-token, prefill or decode
    batch_size: int = 0  # 0: no batch
    prompt_tokens: int = 0  # of each row, before the first new one
    new_tokens: int = 0  # of each row

    def __str__(self) -> str:
        after = f" of {self.prompt_tokens} tokens" if self.name == "prefill" else ""
        return f"{self.name}{after or (f', {self.batch_size} rows' if self.batch_size > 1 else '')}"

    @property
    def unit(self) -> str:
        """What its figures are in."""
        return "tokens/s" if self._tokens else "s"

    def rate(self, seconds: float) -> float:
        """Return the figure, in its unit, of a round that took so long."""
        return self._tokens / seconds if self._tokens else seconds

    @property
    def _tokens(self) -> int:
        per_row = {"prefill": self.prompt_tokens, "decode": self.new_tokens}
        return self.batch_size * per_row.get(self.name, 0)


@dataclass(slots=True)
class Bench:
    """One run. `load` loads the model, which is there already: nothing is downloaded or exported.

    Lengths and sizes fit the model, and go from the least: what has been done before a measure must
    not show in its memory.
    """

    load: Callable[[], LoadedModel]
    rounds: int
    prompt_lengths: Sequence[int]
    batch_sizes: Sequence[int]
    clock: Clock = time.perf_counter
    model: LoadedModel | None = field(default=None, init=False)
    seconds: dict[Measure, list[float]] = field(default_factory=dict, init=False)  # of each round
    # The most memory that was resident, mapped weights included, when a measure was done the first
    # time, after all that stand before it: they take less. None: the system does not tell.
    peaks: dict[Measure, int | None] = field(default_factory=dict, init=False)

    def run(self) -> Iterator[str]:
        """Do the work piece by piece; each is named before it is done. Closing ends the work.

        Rounds go through all measures in turn, so that a change in the machine's speed is seen in
        the spread of each, not taken for a difference between two.
        """
        loading = Measure("load")
        for number in range(self.rounds):
            yield f"round {number + 1} of {self.rounds}: loading"
            reset_peak()
            started = self.clock()
            self.model = self.load()
            self._note(loading, self.clock() - started)
            self.peaks[loading] = read_peak()
            if number + 1 < self.rounds:
                self.model = None  # before the next one: two at once would show in the peak
        assert self.model is not None
        tasks = plan_tasks(self.model, self.prompt_lengths, self.batch_sizes, self.clock)
        for measure, task in tasks:
            yield f"warming up: {measure}"
            task()
            self.peaks[measure] = read_peak()
        for number in range(self.rounds):
            for measure, task in tasks:
                yield f"round {number + 1} of {self.rounds}: {measure}"
                self._note(measure, task())

    def _note(self, measure: Measure, seconds: float) -> None:
        # A clock of coarse ticks may show nothing; a rate needs something.
        self.seconds.setdefault(measure, []).append(max(seconds, 1e-9))


Task = Callable[[], float]  # does the work and returns its seconds


def plan_tasks(
    model: LoadedModel, prompt_lengths: Sequence[int], batch_sizes: Sequence[int], clock: Clock
) -> list[tuple[Measure, Task]]:
    """Return what a round consists of."""
    engine = model.engine
    n_positions = engine.shape.n_positions
    draw = random.Random(0)

    def ids(count: int) -> list[int]:
        return [draw.randrange(engine.shape.vocab_size) for _ in range(count)]

    prompt = ids(min(_FIRST_TOKEN_PROMPT, n_positions - 1))
    task: Task = partial(time_first_token, model, prompt, clock=clock)
    tasks = [(Measure("first-token", 1, len(prompt), 1), task)]
    for length in prompt_lengths:
        task = partial(time_prefill, engine, ids(length), clock=clock)
        tasks.append((Measure("prefill", 1, length), task))
    begun = ids(min(_DECODE_PROMPT, n_positions // 2))
    decoded = ids(min(_DECODE_STEPS, n_positions - len(begun) - 1))  # one more step is not timed
    for size in batch_sizes:
        task = partial(time_decode, engine, begun, decoded, size, clock=clock)
        tasks.append((Measure("decode", size, len(begun), len(decoded)), task))
    return tasks


def time_first_token(model: LoadedModel, prompt: Sequence[int], *, clock: Clock) -> float:
    """Return the seconds from a request to its first token, by the loop that every command uses."""
    request = Request(
        prompt="",
        sampling=SamplingConfig(),
        generation=GenerationConfig(max_new_tokens=1, ignore_eos=True),
        seed=0,
    )
    prepared = PreparedRequest(request, tuple(prompt))
    started = clock()
    list(generate(model.engine, model.tokenizer, model.sampler, [prepared]))
    return clock() - started


def time_prefill(engine: LogitsEngine, ids: Sequence[int], *, clock: Clock) -> float:
    """Return the seconds of feeding a prompt; the engine has no active slot before and after."""
    started = clock()
    engine.extend(0, ids, [len(ids) - 1])
    seconds = clock() - started
    engine.free(0)
    return seconds


def time_decode(
    engine: LogitsEngine, prompt: Sequence[int], ids: Sequence[int], rows: int, *, clock: Clock
) -> float:
    """Return the seconds of one step of `rows` rows for each of `ids`, after a prompt.

    What it takes to sample is not in it; nor is the first step, which binds the slots. The engine
    has no active slot before and after.
    """
    engine.extend(0, prompt, [len(prompt) - 1])
    for row in range(1, rows):
        engine.fork(0, row)
    engine.decode([prompt[-1]] * rows)
    started = clock()
    for token_id in ids:
        engine.decode([token_id] * rows)
    seconds = clock() - started
    for row in reversed(range(rows)):
        engine.free(row)
    return seconds


def get_ready(config: ModelConfig, how: BenchConfig, notes: Notes) -> Bench:
    """Load the model once: for its context, and to export it if need be.

    Raises:
        Gpt2Error: whatever is wrong with the model, or a length that was asked for.
    """
    slots = max(how.batch_size)
    load = partial(load_model, config, max_slots=slots, min_slots=slots)  # fewer measure nothing
    lengths = fit_lengths(how.prompt_length, load(listener=notes).engine.shape.n_positions)
    silent = Notes(quiet=True)  # its notes were shown once
    return Bench(partial(load, listener=silent), how.rounds, lengths, sorted(set(how.batch_size)))


def fit_lengths(asked: Sequence[int], n_positions: int) -> list[int]:
    """Return the lengths of prompts that are measured of a model with this context.

    Raises:
        UsageError: if one that was asked for is beyond it.
    """
    if n_positions < _SMALLEST_CONTEXT:
        raise UsageError(f"a context of {n_positions} tokens is too short to be measured")
    usual = [length for length in _PROMPT_LENGTHS if length <= n_positions]
    lengths = sorted(set(asked)) or usual or [n_positions]
    if lengths[-1] > n_positions:
        expected = f"1 to {n_positions}, the model's context"
        raise UsageError(option="prompt_length", expected=expected, found=lengths[-1])
    return lengths


def make_bench_record(bench: Bench) -> dict[str, Any]:
    """Return the record of a finished run, its keys in the order that they are written.

    `batch_size`, `prompt_tokens` and `new_tokens` are 0 where there are none; `rounds` has the
    value of each round in its order; `peak_memory_bytes` is null where the system does not tell.
    """
    assert bench.model is not None
    engine = bench.model.engine
    return {
        **describe_model(bench.model),
        "threads": engine.threads,
        "n_positions": engine.shape.n_positions,
        "cpu": find_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "gpt2": metadata.version("gpt2"),
            "onnxruntime": engine.runtime_version,
            "numpy": metadata.version("numpy"),
            "python": platform.python_version(),
        },
        "rounds": bench.rounds,
        "measures": [
            _describe_measure(measure, [measure.rate(s) for s in seconds], bench.peaks.get(measure))
            for measure, seconds in bench.seconds.items()
        ],
    }


def _describe_measure(measure: Measure, values: list[float], peak: int | None) -> dict[str, Any]:
    return {
        "measure": measure.name,
        "batch_size": measure.batch_size,
        "prompt_tokens": measure.prompt_tokens,
        "new_tokens": measure.new_tokens,
        "unit": measure.unit,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "rounds": values,
        "peak_memory_bytes": peak,
    }


def format_bench(bench: Bench, *, json: bool) -> str:
    """Return a finished run as one line of JSON, or as lines of conditions and a table."""
    record = make_bench_record(bench)
    if json:
        return format_record(record)
    assert bench.model is not None
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    conditions = (
        describe_conditions(bench.model),
        f"{record['cpu']}, {record['system']}",
        versions,
    )
    table = format_table(_HEADER, [_format_row(measure) for measure in record["measures"]])
    return "".join(f"{line}\n" for line in conditions) + f"\n{table}"


def _format_row(told: dict[str, Any]) -> tuple[str, ...]:
    digits = 4 if told["unit"] == "s" else 1
    peak = told["peak_memory_bytes"]
    return (
        told["measure"],
        *(str(told[key] or "-") for key in ("batch_size", "prompt_tokens", "new_tokens")),
        *(f"{told[key]:.{digits}f}" for key in ("median", "min", "max")),
        told["unit"],
        "-" if peak is None else f"{peak / _MEGABYTE:.0f}",
    )
