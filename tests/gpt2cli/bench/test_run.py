"""Claims about what is measured and how: by a clock that the tests wind, never by a real one."""

import dataclasses
import json
import pathlib
import platform
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpt2cli.bench.run import (
    Bench,
    Measure,
    fit_lengths,
    format_bench,
    plan_tasks,
    time_decode,
    time_first_token,
    time_prefill,
)
from gpt2cli.errors import UsageError
from gpt2cli.loading import LoadedModel
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.loaded import load
from tests.gpt2cli.scripted import Logits, ScriptedEngine
from tests.model_folders import ModelFolders

CONTEXT = 33  # of the small model


class Clock:
    """Tells what it was wound to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Ticking(Clock):
    """Goes on by a second whenever it is read."""

    def __call__(self) -> float:
        self.now += 1
        return self.now


class SlowEngine(ScriptedEngine):
    """Takes a second for each id that is fed, and one for a fork."""

    def __init__(self, clock: Clock, *, max_slots: int) -> None:
        super().__init__(lambda ids: np.zeros(257, np.float32), n_positions=64, max_slots=max_slots)
        self._clock = clock

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
        self._clock.now += len(ids)
        return super().extend(slot, ids, positions)

    def decode(self, ids: Sequence[int]) -> Logits:
        self._clock.now += len(ids)
        return super().decode(ids)

    def fork(self, source: int, target: int, length: int | None = None) -> None:
        self._clock.now += 1
        super().fork(source, target)


@pytest.fixture(scope="module")
def folder(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


@pytest.fixture(scope="module")
def model(folder: pathlib.Path) -> LoadedModel:
    """Return the smallest model with one slot; leave it without active slots."""
    return load(folder)


def make_bench(load_one: Callable[[], LoadedModel], rounds: int, *lengths: int) -> Bench:
    """Return a run whose clock goes on by a second at each reading."""
    return Bench(load_one, rounds, lengths or (32,), (1,), Ticking())


def test_a_prefill_is_timed_from_its_first_id_to_its_logits() -> None:
    clock = Clock()
    engine = SlowEngine(clock, max_slots=1)
    assert time_prefill(engine, [5, 6, 7], clock=clock) == 3
    assert engine.calls[0] == ("extend", 0, (5, 6, 7))
    assert engine.slots == []


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_decode_is_timed_without_the_prompt_and_the_first_step(rows: int) -> None:
    """Here 4 ids in each row; what comes before them is free of charge."""
    clock = Clock()
    engine = SlowEngine(clock, max_slots=rows)
    assert time_decode(engine, [1, 2, 3], [6, 7, 8, 9], rows, clock=clock) == 4 * rows
    assert engine.count("decode") == 5
    assert engine.slots == []


def test_the_rows_that_decode_have_all_the_prompt() -> None:
    clock = Clock()
    engine = SlowEngine(clock, max_slots=2)
    lengths = []
    decode = engine.decode

    def watch(ids: Sequence[int]) -> Logits:
        lengths.append([len(slot) for slot in engine.slots])
        return decode(ids)

    engine.decode = watch  # type: ignore[method-assign]
    time_decode(engine, [1, 2, 3], [6, 7], 2, clock=clock)
    assert lengths == [[3, 3], [4, 4], [5, 5]]


def test_the_first_token_is_that_of_the_loop(model: LoadedModel) -> None:
    """Two readings of the clock, and the slot is free again."""
    assert time_first_token(model, [1, 2, 3], clock=Ticking()) == 1
    assert model.engine.lengths == ()


@pytest.mark.parametrize(
    ("measure", "figure", "unit"),
    [
        (Measure("load"), 0.5, "s"),
        (Measure("first-token", 1, 32, 1), 0.5, "s"),
        (Measure("prefill", 1, 128), 256, "tokens/s"),
        (Measure("decode", 8, 64, 32), 512, "tokens/s"),
    ],
    ids=str,
)
def test_a_figure_counts_the_tokens_that_were_timed(
    measure: Measure, figure: float, unit: str
) -> None:
    """Here in half a second: those of the prompt, or the new ones of all rows."""
    assert measure.rate(0.5) == figure
    assert measure.unit == unit


@pytest.mark.parametrize(
    ("asked", "n_positions", "lengths"),
    [
        ((), 4, [4]),
        ((), 32, [32]),
        ((), 511, [32, 128]),
        ((), 1024, [32, 128, 512]),
        ((9, 3, 9), 33, [3, 9]),
    ],
)
def test_lengths_fit_the_context_and_go_from_the_least(
    asked: Sequence[int], n_positions: int, lengths: Sequence[int]
) -> None:
    """A context shorter than the usual ones is one itself; what takes more memory comes later."""
    assert fit_lengths(asked, n_positions) == lengths


def test_a_length_beyond_the_context_and_a_context_too_short_are_usage_errors() -> None:
    with pytest.raises(UsageError, match=r"prompt_length: expected 1 to 33, .*found 34"):
        fit_lengths((5, 34), 33)
    with pytest.raises(UsageError, match="a context of 3 tokens is too short"):
        fit_lengths((), 3)


@pytest.mark.parametrize("n_positions", [4, 5, 33])
def test_every_task_fits_the_shortest_contexts(
    model_folders: ModelFolders, n_positions: int
) -> None:
    """A prompt as long as the context, and decode up to its end."""
    shape = CheckpointShape(
        n_layer=1, n_head=1, n_embd=8, n_positions=n_positions, vocab_size=289, seed=1
    )
    model = load(model_folders(shape))
    tasks = plan_tasks(model, [n_positions], [1], Ticking())
    assert [measure.name for measure, _ in tasks] == ["first-token", "prefill", "decode"]
    assert all(task() > 0 for _, task in tasks)
    assert tasks[-1][0].new_tokens >= 1


def test_rounds_go_through_all_measures_in_turn(folder: pathlib.Path) -> None:
    """After loading as often, and after each was done once to warm up."""
    bench = make_bench(lambda: load(folder), 2, 3, 8)
    assert list(bench.run()) == [
        *("round 1 of 2: loading", "round 2 of 2: loading"),
        *("warming up: first-token", "warming up: prefill of 3 tokens"),
        *("warming up: prefill of 8 tokens", "warming up: decode"),
        *("round 1 of 2: first-token", "round 1 of 2: prefill of 3 tokens"),
        *("round 1 of 2: prefill of 8 tokens", "round 1 of 2: decode"),
        *("round 2 of 2: first-token", "round 2 of 2: prefill of 3 tokens"),
        *("round 2 of 2: prefill of 8 tokens", "round 2 of 2: decode"),
    ]


def test_a_model_is_gone_before_the_next_one_is_loaded(folder: pathlib.Path) -> None:
    """Two at once would show in the memory."""
    loaded: list[weakref.ref[Any]] = []

    def load_one() -> LoadedModel:
        assert all(reference() is None for reference in loaded)
        model = load(folder)
        loaded.append(weakref.ref(model.engine))
        return model

    list(make_bench(load_one, 3, 3).run())
    assert len(loaded) == 3


def test_closing_the_run_ends_the_work(folder: pathlib.Path) -> None:
    """What has come out so far can be read; nothing more is done."""
    bench = make_bench(lambda: load(folder), 5, 3)
    pieces = bench.run()
    next(pieces), next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert [(measure.name, seconds) for measure, seconds in bench.seconds.items()] == [
        ("load", [1])
    ]


@pytest.fixture
def done(model: LoadedModel) -> Bench:
    """Return a run of three rounds that is over, of a hub's model."""
    stored = dataclasses.replace(model.stored, name="gpt2", revision="0123456789abcdef")
    bench = Bench(lambda: model, 3, (), ())
    bench.model = dataclasses.replace(model, stored=stored)
    prefill, decode = Measure("prefill", 1, 128), Measure("decode", 8, 64, 32)
    bench.seconds = {
        Measure("load"): [0.5, 0.25, 1],
        prefill: [0.128, 0.064, 0.256],
        decode: [1, 2, 4],
    }
    bench.peaks = {Measure("load"): 600_000_000, prefill: None, decode: 712_400_000}
    return bench


def test_the_conditions_stand_above_the_table(done: Bench) -> None:
    """Model, machine, versions; then a line for each measure, its columns apart by spaces."""
    model, machine, versions, empty, *table = format_bench(done, json=False).splitlines()
    assert model == "model gpt2 (0123456789ab), fp32 on cpu, 1 thread, context 33 tokens"
    assert machine.endswith(f", {platform.system()} {platform.machine()}")
    assert [told.split()[0] for told in versions.split(", ")] == [
        *("gpt2", "onnxruntime", "numpy", "python")
    ]
    assert [empty, *table] == [
        "",
        "MEASURE  BATCH  PROMPT  NEW  MEDIAN  MIN     MAX     UNIT      PEAK-MB",
        "load     -      -       -    0.5000  0.2500  1.0000  s         600",
        "prefill  1      128     -    1000.0  500.0   2000.0  tokens/s  -",
        "decode   8      64      32   128.0   64.0    256.0   tokens/s  712",
    ]


def test_the_record_is_one_line_with_every_rounds_value(done: Bench) -> None:
    """Nothing is rounded; the median of an even number of rounds is the mean of both."""
    done.seconds[Measure("load")] = [9, 1, 2, 4]
    text = format_bench(done, json=True)
    record = json.loads(text)
    assert text.count("\n") == 1
    assert list(record) == [
        *("model", "revision", "precision", "device", "threads", "n_positions"),
        *("cpu", "system", "versions", "rounds", "measures"),
    ]
    assert (record["revision"], record["rounds"]) == ("0123456789abcdef", 3)
    assert record["measures"][0]["median"] == 3
    assert record["measures"][1] == {
        "measure": "prefill",
        "batch_size": 1,
        "prompt_tokens": 128,
        "new_tokens": 0,
        "unit": "tokens/s",
        "median": 1000,
        "min": 500,
        "max": 2000,
        "rounds": [1000, 2000, 500],
        "peak_memory_bytes": None,
    }
