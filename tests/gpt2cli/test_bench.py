"""Claims about what is measured and how: by a clock that the tests wind, never by a real one."""

import pathlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpt2cli.bench import (
    Bench,
    Figure,
    Measure,
    describe_conditions,
    plan_tasks,
    time_decode,
    time_first_token,
    time_prefill,
)
from gpt2cli.bench_config import BenchConfig
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

    def fork(self, source: int, target: int) -> None:
        self._clock.now += 1
        super().fork(source, target)


@pytest.fixture(scope="module")
def folder(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder."""
    return model_folders()


@pytest.fixture(scope="module")
def model(folder: pathlib.Path) -> LoadedModel:
    """Return the smallest model with one slot; leave it without active slots."""
    return load(folder)


def make_bench(load_one: Callable[[], LoadedModel], **config: Any) -> Bench:
    """Return a run whose clock goes on by a second at each reading."""
    settled = BenchConfig(batch_size=(1,), **config).fit(CONTEXT)
    return Bench(settled, load_one, Ticking())


def test_a_prefill_is_timed_from_its_first_id_to_its_logits() -> None:
    """The engine is left as it was."""
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
    """And the same ids after it."""
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
    ("n_positions", "lengths"),
    [(4, (4,)), (31, (31,)), (32, (32,)), (511, (32, 128)), (1024, (32, 128, 512))],
)
def test_usual_lengths_beyond_the_context_are_left_out(
    n_positions: int, lengths: tuple[int, ...]
) -> None:
    """A context shorter than all of them is one itself."""
    assert BenchConfig().fit(n_positions).prompt_length == lengths


def test_lengths_and_sizes_come_once_and_from_the_least() -> None:
    """What takes more memory comes later."""
    config = BenchConfig(prompt_length=(9, 3, 9), batch_size=(4, 1, 4)).fit(33)
    assert (config.prompt_length, config.batch_size) == ((3, 9), (1, 4))


@pytest.mark.parametrize(
    ("options", "n_positions", "message"),
    [
        ({"prompt_length": (5, 34)}, 33, "prompt_length: expected 1 to 33, .*found 34"),
        ({"prompt_length": (0,)}, 33, "prompt_length: expected a whole number 1 or more"),
        ({"batch_size": (1, 0)}, 33, "batch_size: expected a whole number 1 to 256, found 0"),
        ({"rounds": 0}, 33, "rounds: expected a whole number 1 or more, found 0"),
        ({}, 3, "a context of 3 tokens is too short"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_a_usage_error(
    options: dict[str, Any], n_positions: int, message: str
) -> None:
    """With the range and what was found."""
    with pytest.raises(UsageError, match=message):
        BenchConfig(**options).fit(n_positions)


@pytest.mark.parametrize("n_positions", [4, 5, 33])
def test_every_task_fits_the_shortest_contexts(
    model_folders: ModelFolders, n_positions: int
) -> None:
    """A prompt as long as the context, and decode up to its end."""
    shape = CheckpointShape(
        n_layer=1, n_head=1, n_embd=8, n_positions=n_positions, vocab_size=289, seed=1
    )
    model = load(model_folders(shape))
    config = BenchConfig(prompt_length=(n_positions,), batch_size=(1,)).fit(n_positions)
    tasks = plan_tasks(model, config, Ticking())
    assert [measure.name for measure, _ in tasks] == ["first-token", "prefill", "decode"]
    assert all(task() > 0 for _, task in tasks)
    assert tasks[-1][0].new_tokens >= 1


def test_rounds_go_through_all_measures_in_turn(folder: pathlib.Path) -> None:
    """After loading as often, and after each was done once to warm up."""
    bench = make_bench(lambda: load(folder), rounds=2, prompt_length=(3, 8))
    assert list(bench.run()) == [
        *("round 1 of 2: loading", "round 2 of 2: loading"),
        *("warming up: first-token", "warming up: prefill of 3 tokens"),
        *("warming up: prefill of 8 tokens", "warming up: decode"),
        *("round 1 of 2: first-token", "round 1 of 2: prefill of 3 tokens"),
        *("round 1 of 2: prefill of 8 tokens", "round 1 of 2: decode"),
        *("round 2 of 2: first-token", "round 2 of 2: prefill of 3 tokens"),
        *("round 2 of 2: prefill of 8 tokens", "round 2 of 2: decode"),
    ]


def test_each_measure_has_a_value_for_each_round(folder: pathlib.Path) -> None:
    """By a clock on which everything takes a second, a rate is the number of its tokens."""
    bench = make_bench(lambda: load(folder), rounds=3, prompt_length=(8,))
    list(bench.run())
    assert [(figure.measure.name, figure.values) for figure in bench.figures] == [
        ("load", (1, 1, 1)),
        ("first-token", (1, 1, 1)),
        ("prefill", (8, 8, 8)),
        ("decode", (16, 16, 16)),  # half of the context, less the step that is not timed
    ]


def test_a_model_is_gone_before_the_next_one_is_loaded(folder: pathlib.Path) -> None:
    """Two at once would show in the memory."""
    loaded: list[weakref.ref[Any]] = []

    def load_one() -> LoadedModel:
        assert all(reference() is None for reference in loaded)
        model = load(folder)
        loaded.append(weakref.ref(model.engine))
        return model

    list(make_bench(load_one, rounds=3, prompt_length=(3,)).run())
    assert len(loaded) == 3


def test_closing_the_run_ends_the_work(folder: pathlib.Path) -> None:
    """What has come out so far can be read; nothing more is done."""
    bench = make_bench(lambda: load(folder), rounds=5, prompt_length=(3,))
    pieces = bench.run()
    next(pieces), next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert [(figure.measure.name, figure.values) for figure in bench.figures] == [("load", (1,))]


def test_the_median_of_rounds_is_the_middle_one() -> None:
    """Of an even number the mean of both."""
    assert Figure(Measure("load"), (9, 1, 2), None).median == 2
    assert Figure(Measure("load"), (9, 1, 2, 4), None).median == 3


def test_conditions_tell_model_device_and_versions(
    model: LoadedModel, folder: pathlib.Path
) -> None:
    """As they are in records."""
    conditions = describe_conditions(model)
    assert (conditions.model, conditions.revision) == (str(folder), None)
    assert (conditions.precision, conditions.device) == ("fp32", "cpu")
    assert (conditions.threads, conditions.n_positions) == (1, CONTEXT)
    assert list(conditions.versions) == ["gpt2", "onnxruntime", "numpy", "python"]
    assert all([conditions.cpu, conditions.system, *conditions.versions.values()])
