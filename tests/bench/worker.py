"""Runs one program in one precision, in a process of its own: python -m tests.bench.worker JOB.

A job is JSON: `program`, `path`, `precision`, `threads`, `workload` (a file), `task`, and for
`measure` `batch_size`. What it tells goes to stdout, each as a line after `MARK`: libraries write
there too.
"""

import importlib
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tests.bench.workload import Workload, read_workload

MARK: Final = "@bench "
_WARM_STEPS: Final = 4


class Model(Protocol):
    """What the benchmark needs of a program; each `peer_…` module has one. All is greedy."""

    def complete(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many ids after a prompt."""
        ...

    def time_decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Return the seconds of so many steps after prompts of equal lengths, side by side."""
        ...

    def time_prefill(self, ids: Sequence[int]) -> float:
        """Return the seconds to what follows a prompt."""
        ...

    def time_batch(self, prompts: Sequence[Sequence[int]], steps: int, *, size: int) -> float:
        """Return the seconds of completing all prompts with so many tokens, `size` at once."""
        ...


def run(job: dict[str, Any]) -> None:
    """Do a job and tell its results."""
    module = importlib.import_module(f"tests.bench.peer_{job['program']}")
    workload = read_workload(pathlib.Path(job["workload"]))
    model = module.Model(job["path"], precision=job["precision"], threads=job["threads"])
    _tell({"first_token": model.complete(workload.start_prompt, 1)[0]})
    if job["task"] == "check":
        _tell(check(model, workload, module))
    elif job["task"] == "measure":
        _tell(measure(model, workload, batch_size=job["batch_size"]))


def check(model: Model, workload: Workload, module: Any) -> dict[str, Any]:
    """Return greedy completions, how long a batch takes at each size, and versions."""
    prompts, steps = workload.checked_prompts, workload.checked_steps
    result: dict[str, Any] = {"completions": [model.complete(ids, steps) for ids in prompts]}
    if hasattr(model, "explain"):
        explained = [model.explain(ids, steps) for ids in prompts]
        result["gaps"] = [[gap for _, gap in tokens] for tokens in explained]
    sizes = [size for size in module.BATCH_SIZES if size <= len(workload.batch_prompts)]
    result["batch_seconds"] = {
        size: model.time_batch(workload.batch_prompts, workload.batch_steps, size=size)
        for size in sizes or module.BATCH_SIZES[:1]
    }
    result["versions"] = {"python": sys.version.split()[0], **_find_versions(module.PACKAGES)}
    return result


def measure(model: Model, workload: Workload, *, batch_size: int) -> dict[str, float]:
    """Return the figures of a round: tokens per second, and bytes of memory at their peak."""
    model.complete(workload.decode_prompts[0], workload.memory_steps)
    figures: dict[str, float] = {"memory_one": read_peak()}
    for rows in (1, len(workload.decode_prompts)):
        prompts, steps = workload.decode_prompts[:rows], workload.decode_steps
        model.time_decode(prompts, _WARM_STEPS)
        figures[f"decode_{rows}"] = rows * steps / model.time_decode(prompts, steps)
    prompts, steps = workload.batch_prompts, workload.batch_steps
    seconds_of_batch = model.time_batch(prompts, steps, size=batch_size)
    figures["batch"] = len(prompts) * steps / seconds_of_batch
    figures["memory_batch"] = read_peak()
    for ids in workload.prefill_prompts:
        model.time_prefill(ids)
        seconds = sorted(model.time_prefill(ids) for _ in range(workload.prefill_repeats))
        figures[f"prefill_{len(ids)}"] = len(ids) / seconds[len(seconds) // 2]
    return figures


def read_peak() -> float:
    """Return the largest resident memory so far, in bytes, mapped files included (proc(5), VmHWM).

    Not `ru_maxrss`: Linux lets that begin with what the parent had.
    """
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def _find_versions(packages: Sequence[str]) -> dict[str, str]:
    from importlib import metadata  # not before the first token

    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # of onnxruntime and onnxruntime-gpu there is one
    return found


def _tell(result: dict[str, Any]) -> None:
    print(f"\n{MARK}{json.dumps(result)}", flush=True)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
