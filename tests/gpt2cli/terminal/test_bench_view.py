"""Claims about how a benchmark is shown: a table for people, a record for programs."""

import json
from dataclasses import replace

import pytest

from gpt2cli.bench import Bench, Conditions, Figure, Measure
from gpt2cli.bench_config import BenchConfig
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.bench_view import format_bench

_CONDITIONS = Conditions(
    model="gpt2",
    revision="0123456789abcdef",
    precision="fp32",
    device="cpu",
    threads=2,
    n_positions=1024,
    cpu="A CPU",
    system="Linux x86_64",
    versions={"gpt2": "1.2", "python": "3.11.7"},
)


class Done(Bench):
    """A run that is over."""

    @property
    def figures(self) -> list[Figure]:
        return [
            Figure(Measure("load"), (0.5, 0.25, 1), 600_000_000),
            Figure(Measure("prefill", 1, 128), (1000, 1200.04, 900), None),
            Figure(Measure("decode", 8, 64, 32), (300, 280, 310), 712_400_000),
        ]


def never() -> LoadedModel:
    """Load nothing."""
    raise AssertionError


@pytest.fixture
def bench() -> Bench:
    """Return a run of three rounds that is over."""
    done = Done(BenchConfig(rounds=3), never)
    done.conditions = _CONDITIONS
    return done


def test_the_conditions_stand_above_the_table(bench: Bench) -> None:
    """Model, machine, versions; then a line for each measure, its columns apart by spaces."""
    assert format_bench(bench, json=False) == (
        "model gpt2 (0123456789ab), fp32 on cpu, 2 threads, context 1024 tokens\n"
        "A CPU, Linux x86_64\n"
        "gpt2 1.2, python 3.11.7\n"
        "\n"
        "MEASURE  BATCH  PROMPT  NEW  MEDIAN  MIN     MAX     UNIT      PEAK-MB\n"
        "load     -      -       -    0.5000  0.2500  1.0000  s         600\n"
        "prefill  1      128     -    1000.0  900.0   1200.0  tokens/s  -\n"
        "decode   8      64      32   300.0   280.0   310.0   tokens/s  712\n"
    )


def test_a_thread_alone_and_a_model_without_revision_are_told_as_such(bench: Bench) -> None:
    """Nothing empty is shown."""
    bench.conditions = replace(_CONDITIONS, threads=1, revision=None)
    first = format_bench(bench, json=False).splitlines()[0]
    assert first == "model gpt2, fp32 on cpu, 1 thread, context 1024 tokens"


def test_the_record_is_one_line_with_every_rounds_value(bench: Bench) -> None:
    """Nothing is rounded."""
    text = format_bench(bench, json=True)
    record = json.loads(text)
    assert text.count("\n") == 1
    assert list(record) == [
        *("model", "revision", "precision", "device", "threads", "n_positions"),
        *("cpu", "system", "versions", "rounds", "measures"),
    ]
    assert record["revision"] == "0123456789abcdef"
    assert record["measures"][1] == {
        "measure": "prefill",
        "batch_size": 1,
        "prompt_tokens": 128,
        "new_tokens": 0,
        "unit": "tokens/s",
        "median": 1000,
        "min": 900,
        "max": 1200.04,
        "rounds": [1000, 1200.04, 900],
        "peak_memory_bytes": None,
    }
