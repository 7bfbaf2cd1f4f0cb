"""The measures of `tests.bench.cuda`: rates of prefill and decode, and the device's memory."""

import shutil
import statistics
import subprocess
import time
from typing import Any, Final

from gpt2cli.engine.engine import Engine
from gpt2cli.machine import read_peak
from tests.bench.cuda_checks import Setup
from tests.bench.measuring import emptied, prefill, time_decode

_BATCHES: Final = (1, 8, 64)
_LENGTHS: Final = (64, 900)  # tokens in the cache before a step
_PREFILLS: Final = (128, 512, 900)
_STEPS: Final = 32
_ROUNDS: Final = 3
_GROWING: Final = 33  # prompts of memory's step, each longer than the one before
_MEGABYTE: Final = 1_000_000


def read_used(index: int) -> int | None:
    """Return the bytes of a device in use, by whomever; None where nobody tells."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"-i={index}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) << 20 if done.stdout.strip().isdigit() else None


class Rates:
    """Each method is one step, and returns what it found."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def measure(self, precision: str) -> dict[str, Any]:
        """Return tokens per second: of prefill, row by row, and of decode, all rows together."""
        started = time.perf_counter()
        engine = self._setup.open_engine(precision, slots=max(_BATCHES))
        engine.extend(0, [1], [0])
        found: dict[str, Any] = {"load and first step, s": time.perf_counter() - started}
        engine.free(0)
        for length in self._fit(_PREFILLS):
            for rows in _BATCHES:
                key = f"prefill tokens/s, B={rows}, {length} each"
                found[key] = self._time_prefill(engine, rows, length)
        for length in self._fit(_LENGTHS, spare=_STEPS):
            for rows in _BATCHES:
                key = f"decode tokens/s, B={rows}, after {length}"
                texts = [self._setup.draw_ids(row, length) for row in range(rows)]
                found[key] = time_decode(engine, texts, _STEPS)
        return {key: round(value, 3) for key, value in found.items()}

    def measure_memory(self, precision: str) -> dict[str, Any]:
        """Return what is in use more than before, in MB: loaded, at work, after growing prompts."""
        index = self._setup.device.index
        before = read_used(index)
        engine = self._setup.open_engine(precision, slots=max(_BATCHES))
        used = {"loaded, 64 slots": read_used(index)}
        engine.extend(0, [1], [0])
        used["after the first step"] = read_used(index)
        limit = self._setup.limit
        for turn in range(2):  # the second time all lengths are known
            for step in range(1, _GROWING + 1):
                engine.rewind(0, 0)
                engine.extend(0, self._setup.draw_ids(step, step * limit // _GROWING), [0])
            used[f"after growing prompts, turn {turn + 1}"] = read_used(index)
        found: dict[str, Any] = {
            f"MB {what}": None if value is None or before is None else (value - before) / _MEGABYTE
            for what, value in used.items()
        }
        peak = read_peak()
        return found | {"MB of the host's, peak": peak and peak / _MEGABYTE}

    def _fit(self, lengths: tuple[int, ...], *, spare: int = 0) -> list[int]:
        limit = self._setup.limit - spare
        return sorted({min(length, limit) for length in lengths})

    def _time_prefill(self, engine: Engine, rows: int, length: int) -> float:
        texts = [self._setup.draw_ids(row, length) for row in range(rows)]
        rates = []
        for _ in range(_ROUNDS + 1):
            with emptied(engine):
                started = time.perf_counter()
                prefill(engine, texts)
                rates.append(rows * length / (time.perf_counter() - started))
        return statistics.median(rates[1:])  # the first one takes memory
