"""Checks and measures CUDA, for a GPU's first day: one command, unattended. A table, and JSON.

    python -m tests.bench.cuda --output cuda.json [--dry-run] [--device cuda:0] [--seconds 300]

It needs no network: CUDA's libraries are those of NVIDIA's wheels, of an installed torch, or of the
system. A wheel that is too large to be carried in one piece can be cut by `split -b 50M` and joined
by `cat`. --dry-run executes every step on the CPU, with a small model.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from gpt2cli.engine.devices import Device, ask_driver, require_device
from gpt2cli.engine.failures import preload_libraries
from gpt2cli.engine.session import try_cuda
from gpt2cli.errors import DeviceError
from tests.bench.cuda_checks import Checks, Setup
from tests.bench.cuda_rates import Rates
from tests.bench.measuring import describe_machine, write_json
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape

_SHAPE: Final = CheckpointShape(12, 12, 768, 1024, GPT2_VOCAB_SIZE, seed=124)  # 124M
_SMALL_SHAPE: Final = CheckpointShape(2, 2, 64, 320, 1009, seed=7)  # of a dry run
_PYTEST: Final = ("-m", "pytest", "-q", "-m", "gpu", "-rs", "tests/gpt2cli/engine")
_MOST_SHOWN: Final = 2000  # characters of another program's output
_FOUND: Final = "GPT2_BENCH_LIBRARIES_FOUND"

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


def find_library_folders() -> Iterator[pathlib.Path]:
    """Yield folders that may hold CUDA's libraries: those of NVIDIA's wheels, and of torch."""
    for entry in map(pathlib.Path, sys.path):
        yield from sorted((entry / "nvidia").glob("*/lib"))
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        yield pathlib.Path(torch.origin).parent / "lib"
    yield from sorted(pathlib.Path("/usr/local").glob("cuda*/lib64"))


def begin_again_with_libraries() -> None:
    """Begin again where the loader looks into those folders: it reads its path at the start."""
    if _FOUND in os.environ:
        return
    folders = [*map(str, find_library_folders()), os.environ.get("LD_LIBRARY_PATH", "")]
    path = os.pathsep.join(filter(None, folders))
    environment = {**os.environ, "LD_LIBRARY_PATH": path, _FOUND: "1"}
    os.execve(
        sys.executable, [sys.executable, "-m", "tests.bench.cuda", *sys.argv[1:]], environment
    )


def look_at_libraries() -> dict[str, Any]:
    """Return which libraries are missing, and what the driver says."""
    missing = list(preload_libraries().values())
    return {"path": os.environ["LD_LIBRARY_PATH"], "missing": missing, "driver": repr(ask_driver())}


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
    if device.kind == "cuda":
        try_cuda(device)
    return {"right": True}


def describe_conditions(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the figures hold for."""
    model = "2 layers, 64 wide" if options.dry_run else "124M, random weights"
    own = {"dry run": options.dry_run, "device": options.device, "model": model}
    return describe_machine() | own


def run_all(options: argparse.Namespace, work: pathlib.Path) -> Run:
    """Run every step."""
    run = Run(options.seconds)
    device = require_device("cpu" if options.dry_run else options.device)
    setup = Setup(device, work, _SMALL_SHAPE if options.dry_run else _SHAPE)
    checks, rates = Checks(setup), Rates(setup)
    run.do("libraries", look_at_libraries)
    run.do("a product of two matrices", partial(multiply, device))
    doctor = ("-m", "gpt2cli", "doctor", "--device", str(device), "--offline")
    run.do("doctor", partial(call_python, *doctor))
    run.do("export", setup.prepare)
    for precision in setup.folders:
        run.do(f"parity {precision}", partial(checks.check_parity, precision))
        run.do(f"nodes {precision}", partial(checks.find_nodes, precision))
    run.do("ragged batch", checks.check_ragged)
    run.do("fork and move", checks.check_fork)
    run.do("greedy", checks.compare_greedy)
    for precision in setup.folders:
        run.do(f"rates {precision}", partial(rates.measure, precision))
        run.do(f"memory {precision}", partial(rates.measure_memory, precision))
        run.do(f"divergence {precision}", partial(checks.sample_in_batches, precision))
    run.do("too much memory", checks.ask_too_much)
    run.do("tests marked gpu", partial(call_python, *_PYTEST))
    return run


def main() -> None:
    """Run, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("cuda.json"))
    parser.add_argument("--device", default="cuda", metavar="cuda[:N]")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which no step begins")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    begin_again_with_libraries()
    try:
        with tempfile.TemporaryDirectory() as work:
            run = run_all(options, pathlib.Path(work))
    except DeviceError as error:
        raise SystemExit(str(error)) from error
    record = {"conditions": describe_conditions(options), "failed": run.failed}
    record["steps"] = run.results
    write_json(options.output, record)
    print(f"\nfailed: {', '.join(run.failed) or 'none'}")
    raise SystemExit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
