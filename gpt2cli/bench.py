"""Measures how fast a model runs on this machine: loading, first token, prefill, decode, memory.

Speed does not depend on which ids are fed, so they are random ones with a fixed seed.
"""

import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Final

from gpt2cli.bench_config import BenchConfig
from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation.interfaces import LogitsEngine
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.loading import LoadedModel
from gpt2cli.machine import find_cpu_name, read_peak, reset_peak

Clock = Callable[[], float]  # seconds; only differences count

_FIRST_TOKEN_PROMPT: Final = 32
_DECODE_PROMPT: Final = 64
_DECODE_STEPS: Final = 32


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


@dataclass(frozen=True, slots=True)
class Figure:
    """What came out of a measure."""

    measure: Measure
    values: tuple[float, ...]  # in its unit, one for each round
    # The most memory that was resident, mapped weights included, when it was done the first time,
    # after all that stand before it: they take less.
    peak_bytes: int | None

    @property
    def median(self) -> float:
        """The middle one; of an even number of rounds the mean of both."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the figures hold for."""

    model: str
    revision: str | None
    precision: str
    device: str
    threads: int
    n_positions: int
    cpu: str
    system: str
    versions: Mapping[str, str]


@dataclass(slots=True)
class Bench:
    """One run. `load` loads the model, which is there already: nothing is downloaded or exported.

    `config` must be fitted to the model.
    """

    config: BenchConfig
    load: Callable[[], LoadedModel]
    clock: Clock = time.perf_counter
    conditions: Conditions | None = field(default=None, init=False)
    _seconds: dict[Measure, list[float]] = field(default_factory=dict, init=False)
    _peaks: dict[Measure, int | None] = field(default_factory=dict, init=False)

    def run(self) -> Iterator[str]:
        """Do the work piece by piece; each is named before it is done. Closing ends the work.

        Rounds go through all measures in turn, so that a change in the machine's speed is seen in
        the spread of each, not taken for a difference between two.
        """
        config = self.config
        loading = Measure("load")
        for number in range(config.rounds):
            yield f"round {number + 1} of {config.rounds}: loading"
            reset_peak()
            started = self.clock()
            model = self.load()
            self._note(loading, self.clock() - started)
            self._peaks[loading] = read_peak()
            if number + 1 < config.rounds:
                del model  # before the next one: two at once would show in the peak
        self.conditions = describe_conditions(model)
        tasks = plan_tasks(model, config, self.clock)
        for measure, task in tasks:
            yield f"warming up: {measure}"
            task()
            self._peaks[measure] = read_peak()
        for number in range(config.rounds):
            for measure, task in tasks:
                yield f"round {number + 1} of {config.rounds}: {measure}"
                self._note(measure, task())

    @property
    def figures(self) -> list[Figure]:
        """What has come out so far."""
        return [
            Figure(measure, tuple(measure.rate(s) for s in seconds), self._peaks.get(measure))
            for measure, seconds in self._seconds.items()
        ]

    def _note(self, measure: Measure, seconds: float) -> None:
        # A clock of coarse ticks may show nothing; a rate needs something.
        self._seconds.setdefault(measure, []).append(max(seconds, 1e-9))


Task = Callable[[], float]  # does the work and returns its seconds


def plan_tasks(
    model: LoadedModel, config: BenchConfig, clock: Clock = time.perf_counter
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
    for length in config.prompt_length:
        task = partial(time_prefill, engine, ids(length), clock=clock)
        tasks.append((Measure("prefill", 1, length), task))
    begun = ids(min(_DECODE_PROMPT, n_positions // 2))
    decoded = ids(min(_DECODE_STEPS, n_positions - len(begun) - 1))  # one more step is not timed
    for size in config.batch_size:
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


def describe_conditions(model: LoadedModel) -> Conditions:
    """Return what a model's figures on this machine hold for."""
    return Conditions(
        model=model.stored.name,
        revision=model.stored.revision,
        precision=model.stored.folder.precision,
        device=str(model.engine.device),
        threads=model.engine.threads,
        n_positions=model.engine.shape.n_positions,
        cpu=find_cpu_name(),
        system=f"{platform.system()} {platform.machine()}",
        versions={
            "gpt2": metadata.version("gpt2"),
            "onnxruntime": model.engine.runtime_version,
            "numpy": metadata.version("numpy"),
            "python": platform.python_version(),
        },
    )
