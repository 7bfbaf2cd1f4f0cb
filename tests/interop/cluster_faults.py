"""Tries the faults of a cluster on real Ray: after each, nothing is lost, twice, or other.

    python -m tests.interop.cluster_faults FOLDER [FAULT...]

FOLDER takes the files; without a FAULT all are tried. It needs Ray, Linux, two cores and 4 GB.
"""

import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Final

import ray

from gpt2cli.store.names import STARTER_FOLDER
from tests.interop.cluster_runs import (
    Run,
    add_node,
    blind_node,
    clustered,
    find_workers,
    joined,
    slowed,
    wait_for,
)

_KILLS: Final = 20
_MB: Final = 1 << 20
SENT: Final = pathlib.Path(tempfile.gettempdir()) / f"gpt2-cluster-{os.getuid()}"


def kill_workers(run: Run) -> str:
    """Kill a worker 20 times, whenever a few records are there since the last time."""
    draw = random.Random(0)
    with clustered(2) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        for _ in range(_KILLS):
            least = run.count("out") + 4
            wait_for(lambda least=least: find_workers() and run.count("out") >= least)
            assert process.poll() is None, f"it ended too early: {process.communicate()}"
            os.kill(draw.choice(find_workers()), signal.SIGKILL)
        return run.finish(process)


def kill_node(run: Run) -> str:
    """Kill one of two nodes for good, with all its processes."""
    with clustered(1) as cluster:
        node = add_node(cluster)
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: len(find_workers()) == 2 and run.count("out") > 20)
        cluster.remove_node(node, allow_graceful=False)
        return run.finish(process)


def add_one(run: Run) -> str:
    """Add a node to one that runs: it gets a worker."""
    with clustered(1) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: run.count("out") > 20)
        add_node(cluster)
        told = run.finish(process)
    assert "worker 2 on" in told
    return told


def replace_node(run: Run) -> str:
    """Kill the only node, and add another one later."""
    with clustered(0) as cluster:
        node = add_node(cluster)
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: run.count("out") > 20)
        cluster.remove_node(node, allow_graceful=False)
        time.sleep(3)
        assert process.poll() is None
        add_node(cluster)
        return run.finish(process)


def exhaust_memory(run: Run) -> str:
    """Leave a worker no more memory than it has."""
    with clustered(2) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: len(find_workers()) == 2 and run.count("out") > 20)
        pid = find_workers()[0]
        size = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0]) * 4096
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
        told = run.finish(process)
    print("the worker lived on" if "begins anew" not in told else "the worker began anew")
    return told


def kill_driver(run: Run) -> str:
    """Kill the driver twice: no worker is left, and it goes on."""
    with clustered(2) as cluster:
        for at_least in (20, 100):
            process = run.start("out", "--cluster", cluster.address, "--resume")
            wait_for(lambda least=at_least: run.count("out") > least)
            process.kill()
            process.communicate()
            wait_for(lambda: not find_workers(), 30)
        return run.finish(run.start("out", "--cluster", cluster.address, "--resume"))


def interrupt_driver(run: Run) -> str:
    """Press Ctrl-C: exit code 130, no worker is left, and it goes on without a cluster."""
    with clustered(2) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: run.count("out") > 20)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
        assert process.returncode == 130, told
        assert b"--resume continues from there" in told
        wait_for(lambda: not find_workers(), 30)
    return run.finish(run.start("out", "--resume"))


def fill_store(run: Run) -> str:
    """Fill the object stores of all nodes while it runs."""
    with clustered(2) as cluster:
        joined(cluster)
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: run.count("out") > 20)
        kept = [ray.put(os.urandom(10 * _MB)) for _ in range(30)]  # three times what fits
        told = run.finish(process)
        del kept
        ray.shutdown()
    return told


def slow_worker(run: Run) -> str:
    """Let one of two workers run at a tenth of its speed."""
    with clustered(2) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: len(find_workers()) == 2 and run.count("out") > 20)
        with slowed(find_workers()[0], 0.1):
            return run.finish(process)


def hang_worker(run: Run) -> str:
    """Stop one of two workers: it neither dies nor answers."""
    with clustered(2) as cluster:
        process = run.start("out", "--cluster", cluster.address)
        wait_for(lambda: len(find_workers()) == 2 and run.count("out") > 20)
        pid = find_workers()[0]
        os.kill(pid, signal.SIGSTOP)
        try:
            return run.finish(process)
        finally:
            if pid in find_workers():
                os.kill(pid, signal.SIGCONT)


def lack_folder(run: Run) -> str:
    """Let a node lack the model's folder: it is sent there."""
    shutil.rmtree(SENT, ignore_errors=True)
    with clustered(0) as cluster, blind_node(cluster, pathlib.Path(run.model)):
        told = run.finish(run.start("out", "--cluster", cluster.address))
    assert list(SENT.glob("*/model.onnx.data"))
    return told


def lack_hub_model(run: Run) -> str:
    """Let a node lack a model of the hub, which it cannot reach: the other one does all."""
    shutil.rmtree(SENT, ignore_errors=True)
    hidden = (pathlib.Path(os.environ["HF_HOME"]), pathlib.Path(os.environ["XDG_CACHE_HOME"]))
    with clustered(1) as cluster, blind_node(cluster, *hidden):
        told = run.finish(run.start("out", "--cluster", cluster.address))
    assert "going on without worker" in told, told
    return told


FAULTS: Final[dict[str, Callable[[Run], str]]] = {
    fault.__name__: fault
    for fault in (
        kill_workers, kill_node, add_one, replace_node, exhaust_memory, kill_driver,
        interrupt_driver, fill_store, slow_worker, hang_worker, lack_folder, lack_hub_model,
    )
}  # fmt: skip


def make_run(folder: pathlib.Path, name: str) -> Run:
    """Return the batch in which a fault is tried, with its models."""
    if name == "lack_folder":
        model = folder / "model"
        if not model.exists():
            command = [sys.executable, "-m", "gpt2cli", "export", "starter", str(model), "-q"]
            subprocess.run(command, check=True)
        return Run(folder, model=str(model))
    if name == "lack_hub_model":
        cached = pathlib.Path(os.environ["HF_HOME"]) / "hub" / "models--own--starter"
        if not cached.exists():
            shutil.copytree(STARTER_FOLDER, cached / "snapshots" / ("0" * 40))
            (cached / "refs").mkdir()
            (cached / "refs" / "main").write_text("0" * 40)
        return Run(folder, model="own/starter")
    return Run(folder, 1500 if name == "kill_workers" else 400, grows=name == "exhaust_memory")


def main(folder: pathlib.Path, names: list[str]) -> None:
    """Try faults, and compare what is written with a run without a cluster."""
    folder = folder.absolute()
    caches = {"XDG_CACHE_HOME": str(folder / "cache"), "HF_HOME": str(folder / "hub")}
    os.environ.update(caches, HF_HUB_OFFLINE="1")
    before = None
    for name in names or FAULTS:
        for leftover in folder.glob("out*"):
            leftover.unlink()
        run = make_run(folder, name)
        if run != before:
            run.write_input()
            run.finish(run.start("here"))
        before = run
        began = time.monotonic()
        told = FAULTS[name](run)
        verdict = "the same bytes" if run.is_whole("out") else "OTHER BYTES"
        print(f"== {name}: {verdict}, {time.monotonic() - began:.0f} s", flush=True)
        print(told, flush=True)
        assert run.is_whole("out")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
