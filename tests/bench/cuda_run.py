"""Runs the steps of `tests.bench.cuda`, one after the other: none that fails stops the rest."""

import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnxruntime

from export.convert import convert
from export.storage import Precision
from gpt2cli.engine.devices import Device, ask_driver, require_device
from gpt2cli.engine.failures import captured, preload_libraries
from gpt2cli.engine.session import try_cuda
from gpt2cli.errors import DeviceError
from gpt2cli.model_folder import read_model_folder
from tests.bench.cuda_checks import Checks
from tests.bench.cuda_rates import Rates
from tests.bench.cuda_setup import Setup
from tests.bench.cuda_wheels import find_library_folders
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape, write_checkpoint

_SHAPE: Final = CheckpointShape(12, 12, 768, 1024, GPT2_VOCAB_SIZE, seed=124)  # 124M
_SMALL_SHAPE: Final = CheckpointShape(2, 2, 64, 320, 1009, seed=7)  # of a dry run
_PYTEST: Final = ("-m", "pytest", "-q", "-m", "gpu", "-rs", "tests/gpt2cli/engine")
_MOST_SHOWN: Final = 2000  # characters of another program's output

Step = Callable[[], dict[str, Any]]


class Run:
    """The steps' results, as they come."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.results: dict[str, dict[str, Any]] = {}

    def do(self, name: str, step: Step) -> None:
        """Run a step, show what it found, and keep it; an exception is a result too."""
        if time.monotonic() > self._until:
            self.results[name] = {"skipped": "no time is left"}
            return
        started = time.monotonic()
        try:
            found = step()
        except Exception as error:  # whatever it is, the other steps can still tell something
            found = {"error": f"{type(error).__name__}: {error}"}
            found["traceback"] = traceback.format_exc()
        found["seconds"] = round(time.monotonic() - started, 2)
        self.results[name] = found
        print(f"\n{name}")
        for key, value in found.items():
            print(f"  {key:42}{value}", flush=True)

    @property
    def failed(self) -> list[str]:
        """The steps that could not be done, or found something wrong."""
        return [
            name
            for name, found in self.results.items()
            if "error" in found or "skipped" in found or found.get("right") is False
        ]


def prepare(work: pathlib.Path, shape: CheckpointShape, setup: Setup) -> dict[str, Any]:
    """Make the model and its two folders."""
    checkpoint = write_checkpoint(work / "checkpoint", shape, tokenizer="filled")
    found: dict[str, Any] = {}
    for precision in (Precision.FP32, Precision.FP16):
        started = time.monotonic()
        convert(checkpoint, work / precision, precision=precision)
        found[f"export to {precision}, s"] = round(time.monotonic() - started, 2)
        setup.folders[str(precision)] = read_model_folder(work / precision)
    setup.checkpoint = checkpoint
    return found


def load_libraries() -> dict[str, Any]:
    """Load CUDA's libraries from wherever they are, and say what is missing still."""
    tried = []
    for folder in find_library_folders():
        if folder.is_dir():
            tried.append(str(folder))
            with captured():
                onnxruntime.preload_dlls(directory=str(folder))
    missing = list(preload_libraries().values())
    return {"folders": tried, "missing": missing, "driver": repr(ask_driver())}


def call_python(*arguments: str) -> dict[str, Any]:
    """Run another program of ours with this interpreter; what it wrote is the result."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    shown = (done.stdout + done.stderr)[-_MOST_SHOWN:]
    absent = "No module named" in shown  # of a program that is not installed there
    return {"exit code": done.returncode, "output": shown, "right": absent or not done.returncode}


def multiply(device: Device) -> dict[str, Any]:
    """Let the device do what every start tries first."""
    try_cuda(device)
    return {"right": True}


def describe_conditions(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the figures hold for."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "dry run": options.dry_run,
        "device": options.device,
        "system": platform.platform(),
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "numpy": np.__version__,
        "model": "2 layers, 64 wide" if options.dry_run else "124M, random weights",
    }


def run_all(options: argparse.Namespace) -> Run:
    """Run every step."""
    run = Run(options.seconds)
    device = require_device("cpu" if options.dry_run else options.device)
    setup = Setup(device)
    run.do("libraries", load_libraries)
    if not options.dry_run:
        run.do("a product of two matrices", lambda: multiply(device))
        doctor = ("-m", "gpt2cli", "doctor", "--device", options.device, "--offline")
    else:
        doctor = ("-m", "gpt2cli", "doctor", "--device", "cpu", "--offline")
    run.do("doctor", lambda: call_python(*doctor))
    shape = _SMALL_SHAPE if options.dry_run else _SHAPE
    run.do("export", lambda: prepare(options.work, shape, setup))
    checks, rates = Checks(setup), Rates(setup)
    for precision in setup.folders:
        run.do(f"parity {precision}", lambda p=precision: checks.check_parity(p))  # type: ignore[misc]
        run.do(f"nodes {precision}", lambda p=precision: checks.find_nodes(p))  # type: ignore[misc]
    run.do("ragged batch", checks.check_ragged)
    run.do("fork and move", checks.check_fork)
    run.do("greedy", checks.compare_greedy)
    for precision in setup.folders:
        run.do(f"rates {precision}", lambda p=precision: rates.measure(p))  # type: ignore[misc]
        run.do(f"memory {precision}", lambda p=precision: rates.measure_memory(p))  # type: ignore[misc]
        run.do(f"divergence {precision}", lambda p=precision: checks.sample_in_batches(p))  # type: ignore[misc]
    run.do("too much memory", checks.ask_too_much)
    run.do("tests marked gpu", lambda: call_python(*_PYTEST))
    return run


def main() -> None:
    """Run, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    try:
        run = run_all(options)
    except DeviceError as error:
        raise SystemExit(str(error)) from error
    record = {"conditions": describe_conditions(options), "failed": run.failed}
    record["steps"] = run.results
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\nfailed: {', '.join(run.failed) or 'none'}")
    raise SystemExit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
