"""What the benchmarks of our own engine share: timed steps, conditions, and the file they write."""

import datetime
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime

from gpt2cli.engine.engine import Engine
from gpt2cli.machine import count_cores, find_cpu_name


@contextmanager
def emptied(engine: Engine) -> Iterator[Engine]:
    """Free every slot at the end."""
    try:
        yield engine
    finally:
        while engine.lengths:
            engine.free(len(engine.lengths) - 1)


def prefill(engine: Engine, texts: Sequence[Sequence[int]]) -> None:
    """Feed each text to a slot of its own, row by row."""
    for slot, ids in enumerate(texts):
        engine.extend(slot, ids, [len(ids) - 1])


def time_decode(engine: Engine, texts: Sequence[Sequence[int]], steps: int) -> float:
    """Return tokens per second of all rows, decoded together after their texts: the median step."""
    with emptied(engine):
        prefill(engine, texts)
        seconds = []
        for step in range(steps):
            started = time.perf_counter()
            engine.decode([step] * len(texts))
            seconds.append(time.perf_counter() - started)
    return len(texts) / statistics.median(seconds)


def describe_machine() -> dict[str, Any]:
    """Return what the numbers depend on beside the code."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "cpu": find_cpu_name(),
        "cores": count_cores(),
        "load average": os.getloadavg(),
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "numpy": np.__version__,
    }


def write_json(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    """Write a record."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)
