"""Runs `gpt2 batch --cluster` on Ray clusters of several nodes that this machine plays."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.cluster_utils import Cluster

_MARK: Final = "GPT2_CLUSTER_RUN"  # in the environment of all that this process starts
_STORE: Final = 100 << 20  # bytes of each node's object store
_HANGS_AFTER: Final = 400.0  # seconds


@dataclass(frozen=True)
class Run:
    """A batch into a file, on a cluster or without one."""

    folder: pathlib.Path
    records: int = 400
    grows: bool = False  # the last records take ten times as many tokens
    model: str = "starter"

    @property
    def input(self) -> pathlib.Path:
        return self.folder / "in.jsonl"

    def command(self, out: str, *more: str) -> list[str]:
        same = ("-m", self.model, "-n", "24", "--seed", "5", "--stats")
        return [
            *(sys.executable, "-m", "gpt2cli", "batch", str(self.input)),
            *("-o", str(self.folder / out), *same, *more),
        ]

    def write_input(self) -> None:
        """Of several lengths, one that has samples, and one that is bad."""
        lines = [
            f'{{"prompt": "Once upon a time {n}", "max_new_tokens": {self._count_tokens(n)}, '
            f'"samples": {1 + (n % 10 == 3)}}}\n'
            for n in range(self.records)
        ]
        lines[len(lines) // 2] = "{bad\n"
        self.input.write_text("".join(lines))

    def _count_tokens(self, number: int) -> int:
        few = 4 + 7 * number % 40
        return 10 * few if self.grows and number > self.records * 0.7 else few

    def start(self, out: str, *more: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def finish(self, process: "subprocess.Popen[bytes]") -> str:
        """Wait for the end of a run, whose one error is the bad record; return its stderr."""
        shown, told = process.communicate(timeout=_HANGS_AFTER)
        assert (process.returncode, shown) == (1, b""), (process.returncode, shown, told.decode())
        return told.decode()

    def count(self, out: str) -> int:
        """Return how many lines are written."""
        path = self.folder / out
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def is_whole(self, out: str) -> bool:
        """Tell whether output and journal have the bytes of a run without a cluster."""
        pairs = ((out, "here"), (f"{out}.resume.json", "here.resume.json"))
        return all(self._read(one) == self._read(other) for one, other in pairs)

    def _read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@contextlib.contextmanager
def clustered(nodes: int, **head: Any) -> Iterator[Cluster]:
    """Give a cluster of nodes with a core each, beside a head without; nothing of it is left."""
    os.environ[_MARK] = str(os.getpid())
    args = {"num_cpus": 0, "object_store_memory": _STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=args | head)
    try:
        for _ in range(nodes):
            add_node(cluster)
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Cluster, **more: Any) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=_STORE, **more)


@contextlib.contextmanager
def blind_node(cluster: Cluster, *hidden: pathlib.Path) -> Iterator[None]:
    """Give a node more, which finds these folders empty (unshare, mount); it is left at the end."""
    mounts = "".join(f"mount -t tmpfs none {path} && " for path in hidden)
    ray_start = f"{sys.executable} -m ray.scripts.scripts start --block --address={cluster.address}"
    line = f"{mounts} exec {ray_start} --num-cpus=1 --object-store-memory={_STORE}"
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        joined(cluster)
        before = count_nodes()
        wait_for(lambda: count_nodes() > before, 60)
        ray.shutdown()
        yield
    finally:
        process.terminate()
        process.wait()


def count_nodes() -> int:
    """Return how many nodes with cores the cluster has that this process has joined."""
    return sum(node["Alive"] and "CPU" in node["Resources"] for node in ray.nodes())


def find_workers() -> list[int]:
    """Return the processes of our workers, of this machine's clusters that we started."""
    mark = f"{_MARK}={os.getpid()}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_worker = (entry / "cmdline").read_bytes().startswith(b"ray::Worker")
            if is_worker and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return sorted(found)


def wait_for(done: Any, seconds: float = _HANGS_AFTER) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)


@contextlib.contextmanager
def slowed(pid: int, share: float, period: float = 0.5) -> Iterator[None]:
    """Let a process run for a share of the time only."""
    script = (
        "import os, signal, sys, time\n"
        "pid, on, off = int(sys.argv[1]), *map(float, sys.argv[2:])\n"
        "while True:\n"
        "    os.kill(pid, signal.SIGSTOP); time.sleep(off)\n"
        "    os.kill(pid, signal.SIGCONT); time.sleep(on)\n"
    )
    times = (str(period * share), str(period * (1 - share)))
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(pid), *times], stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def joined(cluster: Cluster) -> Mapping[str, Any]:
    """Join a cluster from this process too."""
    return ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
