"""Shows what a benchmark came to: conditions and a table for people, or one JSON record."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from gpt2cli.bench import Bench, Conditions, Figure
from gpt2cli.records import format_record
from gpt2cli.terminal.tables import format_table

_HEADER: Final = ("MEASURE", "BATCH", "PROMPT", "NEW", "MEDIAN", "MIN", "MAX", "UNIT", "PEAK-MB")
_NONE: Final = "-"
_MEGABYTE: Final = 1_000_000
_COMMIT_SHOWN: Final = 12  # characters


def format_bench(bench: Bench, *, json: bool) -> str:
    """Return a finished run as one line of JSON, or as lines of conditions and a table."""
    assert bench.conditions is not None
    if json:
        return format_record(make_bench_record(bench))
    rows = [_format_figure(figure) for figure in bench.figures]
    conditions = "".join(f"{line}\n" for line in _format_conditions(bench.conditions))
    return f"{conditions}\n{format_table(_HEADER, rows)}"


def make_bench_record(bench: Bench) -> dict[str, Any]:
    """Return the record of a finished run, its keys in the order that they are written.

    Each of `measures` has `measure`, `batch_size`, `prompt_tokens` and `new_tokens` (0: there are
    none), `unit`, `median`, `min`, `max`, `rounds`, the value of each round in its order, and
    `peak_memory_bytes` (null where the system does not tell).
    """
    assert bench.conditions is not None
    return {
        **asdict(bench.conditions),
        "rounds": bench.config.rounds,
        "measures": [_describe_figure(figure) for figure in bench.figures],
    }


def _describe_figure(figure: Figure) -> dict[str, Any]:
    measure = figure.measure
    return {
        "measure": measure.name,
        "batch_size": measure.batch_size,
        "prompt_tokens": measure.prompt_tokens,
        "new_tokens": measure.new_tokens,
        "unit": measure.unit,
        "median": figure.median,
        "min": min(figure.values),
        "max": max(figure.values),
        "rounds": list(figure.values),
        "peak_memory_bytes": figure.peak_bytes,
    }


def _format_conditions(conditions: Conditions) -> Iterator[str]:
    name = conditions.model
    if conditions.revision is not None:
        name += f" ({conditions.revision[:_COMMIT_SHOWN]})"
    threads = conditions.threads
    yield (
        f"model {name}, {conditions.precision} on {conditions.device}, "
        f"{threads} thread{'' if threads == 1 else 's'}, context {conditions.n_positions} tokens"
    )
    yield f"{conditions.cpu}, {conditions.system}"
    yield ", ".join(f"{name} {version}" for name, version in conditions.versions.items())


def _format_figure(figure: Figure) -> tuple[str, ...]:
    measure = figure.measure
    counts = (measure.batch_size, measure.prompt_tokens, measure.new_tokens)
    digits = 4 if measure.unit == "s" else 1
    values = (figure.median, min(figure.values), max(figure.values))
    return (
        measure.name,
        *(str(count) if count else _NONE for count in counts),
        *(f"{value:.{digits}f}" for value in values),
        measure.unit,
        _NONE if figure.peak_bytes is None else f"{figure.peak_bytes / _MEGABYTE:.0f}",
    )
