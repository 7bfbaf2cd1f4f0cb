"""Measures what the weights' precision gives in decoding, beside what memory can give. JSON.

    python -m tests.bench.decode CHECKPOINT --output FILE

CHECKPOINT has the 124M shape (`peers` leaves one in its folder). Rounds are interleaved: in each,
every precision is measured after the read bandwidth of memory, which on shared machines changes by
the minute. Both are told by the median. Starts and peaks are those of `gpt2 generate`.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from export.convert import convert
from export.model_writing import DATA_FILE
from export.storage import Precision
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.machine import count_cores
from gpt2cli.model_folder import read_model_folder
from tests.bench.measuring import describe_machine, time_decode, write_json

_PRECISIONS: Final = (Precision.FP32, Precision.INT8, Precision.INT4)
_ROUNDS: Final = 7
_STEPS: Final = 16
_WARM_UP: Final = 256  # steps in which an engine moves its weights into huge pages
_ROWS: Final = (1, 8)
_NEAR, _FAR = 50, 1000  # tokens in the cache before a step
_BANDWIDTH_BYTES: Final = 512 << 20
_BANDWIDTH_READS: Final = 5
_STARTS: Final = 7
_PROMPT: Final = "Once upon a time, in a small village by the sea,"

Rounds = dict[str, list[float]]  # the numbers of every round by what was measured


def read_memory(array: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return bytes per second of one read by as many threads as cores, each its own part."""
    parts = np.array_split(array, count_cores())
    readers = [threading.Thread(target=part.view(np.float32).max) for part in parts]
    start = time.perf_counter()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return array.nbytes / (time.perf_counter() - start)


def measure_rates(folders: Mapping[str, pathlib.Path]) -> Rounds:
    """Return bandwidth and decode rates of interleaved rounds."""
    memory = np.ones(_BANDWIDTH_BYTES // 8)
    engines = {
        name: Engine(read_model_folder(folder), Device("cpu"), max_slots=max(_ROWS))
        for name, folder in folders.items()
    }
    rounds: Rounds = collections.defaultdict(list)
    for engine in engines.values():
        time_decode(engine, [[7] * _NEAR], _WARM_UP)
    for number in range(_ROUNDS):
        print(f"round {number + 1} of {_ROUNDS}", file=sys.stderr)
        for name, engine in engines.items():
            bandwidth = statistics.median(read_memory(memory) for _ in range(_BANDWIDTH_READS))
            rounds["bandwidth GB/s"].append(round(bandwidth / 1e9, 2))
            for rows, length in (*((rows, _NEAR) for rows in _ROWS), (1, _FAR)):
                rate = time_decode(engine, [[7] * length] * rows, _STEPS)
                rounds[f"{name} decode B={rows} at {length}"].append(round(rate, 2))
    return rounds


def start_once(folder: pathlib.Path) -> dict[str, float]:
    """Generate 100 tokens in a process of its own; return seconds to the first, and the peak."""
    command = [sys.executable, "-m", "gpt2cli", "generate", _PROMPT, "--model", str(folder)]
    command += ["--greedy", "--ignore-eos", "-n", "100", "--stats"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    patterns = {"first token s": r"first token ([\d.]+) s", "peak MB": r"peak memory ([\d.]+) MB"}
    found = ((key, re.search(pattern, done.stderr)) for key, pattern in patterns.items())
    return {key: float(match[1]) for key, match in found if match}


def measure_starts(folders: Mapping[str, pathlib.Path]) -> Rounds:
    """Return times to the first token and peaks of memory of interleaved rounds."""
    rounds: Rounds = collections.defaultdict(list)
    for _ in range(_STARTS):
        for name, folder in folders.items():
            for key, value in start_once(folder).items():
                rounds[f"{name} {key}"].append(value)
    return rounds


def summarise(medians: Mapping[str, float], sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the ratios that the limits are about, of medians of one run."""
    near = {name: medians[f"{name} decode B=1 at {_NEAR}"] for name in sizes}
    ratios = {
        f"{name} share of bandwidth at B=1": near[name] * size / medians["bandwidth GB/s"] / 1e9
        for name, size in sizes.items()
    }
    ratios |= {f"{name} / fp32 at B=1": near[name] / near["fp32"] for name in sizes}
    for name in sizes:
        far = medians[f"{name} decode B=1 at {_FAR}"]
        ratios[f"{name} at {_FAR} / at {_NEAR}"] = far / near[name]
    return {name: round(value, 3) for name, value in ratios.items()}


def measure(checkpoint: pathlib.Path) -> dict[str, Any]:
    """Export every precision, measure, and return the record."""
    with tempfile.TemporaryDirectory() as work:
        folders = {str(precision): pathlib.Path(work) / precision for precision in _PRECISIONS}
        for precision, folder in folders.items():
            convert(checkpoint, folder, precision=Precision(precision))
        sizes = {name: (folder / DATA_FILE).stat().st_size for name, folder in folders.items()}
        rounds = measure_starts(folders) | measure_rates(folders)
    medians = {key: statistics.median(values) for key, values in rounds.items()}
    return {
        "conditions": {
            **describe_machine(),
            **{"steps": _STEPS, "warm-up steps": _WARM_UP, "rounds": _ROUNDS},
            "decode unit": "tokens/s of all rows, by the median step",
            "weights bytes": sizes,  # wpe among them, of which a step reads one row
        },
        "ratios of medians": summarise(medians, sizes),
        "medians": medians,
        "rounds": rounds,
    }


def main() -> None:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    options = parser.parse_args()
    result = measure(options.checkpoint)
    write_json(options.output, result)
    print(json.dumps(result["ratios of medians"], indent=1), file=sys.stderr)


if __name__ == "__main__":
    main()
