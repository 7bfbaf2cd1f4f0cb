"""Workers as actors of Ray: the only module that knows Ray.

Ray places them, begins them anew when they die, and carries the messages.
"""

import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from gpt2cli.batch.cluster.config import ClusterConfig
from gpt2cli.batch.cluster.folders import read_pieces
from gpt2cli.batch.cluster.messages import (
    Event,
    Gone,
    Lacking,
    Parcel,
    Refused,
    Setup,
)
from gpt2cli.batch.cluster.worker import Worker
from gpt2cli.errors import Gpt2Error, PackageError, UsageError
from gpt2cli.machine import count_cores

_PATIENCE: Final = 10.0  # seconds to wait for an address
_MOST_STARTS: Final = 3
_GROWS: Final = 5.0  # seconds between looks at the cluster for new machines
_STORE_BYTES: Final = 1 << 28  # of a cluster that is made for one run: messages, no models
_LOCAL: Final = "local"
_AUTO: Final = "auto"


class RayWorkers:
    """Workers on a cluster that is joined; numbers name them, from 1."""

    def __init__(self, ray: Any, config: ClusterConfig, setup: Setup) -> None:
        self._ray = ray
        self._config = config
        cpus = self._cpus = config.cpus_per_worker or _choose_cpus(ray, config)
        model = replace(setup.model, threads=setup.model.threads or cpus)
        self._setup = replace(setup, model=model)
        self._actor = ray.remote(
            num_cpus=cpus,
            num_gpus=config.gpus_per_worker,
            max_restarts=-1,
            max_task_retries=0,  # what a dead worker ran, any other one may run
            scheduling_strategy="SPREAD",
        )(Worker)
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}  # what was asked of a worker -> its number
        self._sent_to: set[str] = set()  # machines that were sent the model's folder
        self._lacking: Counter[int] = Counter()  # how often each worker asked for it
        self._made = 0
        self._dead: set[int] = set()  # workers that Ray begins anew by itself
        self._grows_at = 0.0
        self._grow()
        if not self._actors:
            gpus = f" and {config.gpus_per_worker:g} GPUs" if config.gpus_per_worker else ""
            expected = f"a machine of {cpus} CPU cores{gpus} in the cluster, for one worker"
            raise UsageError(option="cluster", expected=expected, found="none")

    def send(self, worker: int, parcels: Sequence[Parcel]) -> None:
        """Give records to a worker."""
        self._pending[self._actors[worker].exchange.remote(parcels)] = worker

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        """Return what has come from workers, at the latest after some seconds."""
        if time.monotonic() >= self._grows_at:
            self._grow()
        if not self._pending:
            time.sleep(seconds)
            return []
        refs = list(self._pending)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=seconds)
        if ready:  # and all others that are
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        events = []
        for ref in ready:
            worker = self._pending.pop(ref)
            event = self._read(worker, ref)
            if event is not None:
                events.append((worker, event))
        return events

    def restart(self, worker: int) -> None:
        """Let a worker begin anew; Ray does that by itself where one has died."""
        if worker not in self._dead:
            self._ray.kill(self._actors[worker], no_restart=False)
        self._dead.discard(worker)
        self._ask_to_open(worker)

    def drop(self, worker: int) -> int:
        """Give a worker up; return how many are left."""
        actor = self._actors.pop(worker)
        self._pending = {ref: w for ref, w in self._pending.items() if w != worker}
        self._ray.kill(actor)
        return len(self._actors)

    def _grow(self) -> None:
        """Make as many workers as were asked for, or as there is room for on all machines."""
        self._grows_at = time.monotonic() + _GROWS
        room = _count_room(self._ray, self._cpus, self._config)
        wanted = self._config.workers or room
        while self._made < wanted and (room or self._made):
            self._made += 1
            self._actors[self._made] = self._actor.remote(self._setup)
            self._ask_to_open(self._made)

    def _ask_to_open(self, worker: int) -> None:
        # Retried by Ray: until the worker lives it waits.
        ref = self._actors[worker].open.options(max_task_retries=_MOST_STARTS).remote()
        self._pending[ref] = worker

    def _read(self, worker: int, ref: Any) -> Event | None:
        """Return what a worker answered; None if there is nothing to tell yet."""
        exceptions = self._ray.exceptions
        try:
            answer = self._ray.get(ref)
        except exceptions.RayActorError as error:
            self._dead.add(worker)
            return Gone(_tell_death(error))
        except exceptions.RayError as error:
            return Refused(_shorten(error))
        if isinstance(answer, Lacking):
            return self._send_folder(worker, answer.node)
        return answer

    def _send_folder(self, worker: int, node: str) -> Event | None:
        """Send the model's folder to a machine, once, and let its worker open it."""
        actor = self._actors[worker]
        self._lacking[worker] += 1
        if self._lacking[worker] > _MOST_STARTS:
            return Refused(f"{node}: the model's folder does not arrive there")
        try:
            # Another worker of the machine may have asked while it was on its way.
            if node not in self._sent_to or self._lacking[worker] > 1:
                for piece in read_pieces(self._setup.stored.folder):
                    self._ray.get(actor.receive.remote(piece))
                self._ray.get(actor.finish_folder.remote())
                self._sent_to.add(node)
        except self._ray.exceptions.RayActorError as error:
            self._dead.add(worker)
            return Gone(_tell_death(error))
        except (self._ray.exceptions.RayError, Gpt2Error) as error:
            return Refused(f"{node}: {_shorten(error)}")
        self._ask_to_open(worker)
        return None


@contextmanager
def joined(config: ClusterConfig) -> Iterator[Any]:
    """Join a cluster, or make one on this machine; leave it at the end, with all its actors gone.

    Raises:
        PackageError: if Ray is not installed.
        UsageError: if nobody answers at the address, or it has another version of Ray.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported; nothing is sent
    try:
        import ray
    except ImportError as error:
        told = "it needs Ray, which is not installed"
        raise PackageError(told, "pip install 'gpt2[cluster]'", option="cluster") from error
    address = config.cluster or _AUTO
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == _LOCAL:
        options |= {"num_cpus": count_cores(), "include_dashboard": False}
        options["object_store_memory"] = _STORE_BYTES
    elif address != _AUTO:
        _knock(address)
    elif recorded := _find_recorded(ray):
        _knock(recorded)
    stdout, sys.stdout = sys.stdout, _WithoutRay(sys.stdout)
    try:
        ray.init(address, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        sys.stdout = stdout
        raise UsageError(_shorten(error), option="cluster") from error
    try:
        yield ray
    finally:
        ray.shutdown()
        sys.stdout = stdout


class _WithoutRay:
    """stdout for those who write bytes, as results are: Ray 2.60 prints what it has to tell there.

    It cannot be told not to (`listen_error_messages`), and we tell of workers ourselves.
    """

    def __init__(self, stdout: Any) -> None:
        self._stdout = stdout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)

    def write(self, text: str) -> int:
        """Drop a text."""
        return len(text)


def _find_recorded(ray: Any) -> str | None:
    """Return the address that this machine's cluster had when it was begun; None if unknown.

    Ray 2.60 waits for minutes for one that has ended without a word.
    """
    if recorded := os.environ.get("RAY_ADDRESS"):
        return recorded if ":" in recorded else None
    try:
        found = ray._private.utils.read_ray_address()
    except (AttributeError, OSError):  # another version of Ray
        return None
    return found if isinstance(found, str) else None


def _knock(address: str) -> None:
    """Raise a UsageError unless somebody listens at HOST:PORT, or ray://HOST:PORT."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        raise UsageError(
            option="cluster", expected="auto, local, HOST:PORT or ray://HOST:PORT", found=address
        )
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"nobody answers at {address}: {error}", option="cluster") from error


def _list_machines(ray: Any) -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _choose_cpus(ray: Any, config: ClusterConfig) -> int:
    """Return how many cores a worker has: so that each machine has one, or a GPU has one."""
    if config.gpus_per_worker:
        return 1
    cpus = [int(machine.get("CPU", 0)) for machine in _list_machines(ray)]
    return min((count for count in cpus if count), default=1)


def _count_room(ray: Any, cpus: int, config: ClusterConfig) -> int:
    """Return how many workers all machines have room for."""
    count = 0
    for machine in _list_machines(ray):
        fitting = int(machine.get("CPU", 0)) // cpus
        if config.gpus_per_worker:
            fitting = min(fitting, int(machine.get("GPU", 0) / config.gpus_per_worker))
        count += fitting
    return count


def _tell_death(error: Exception) -> str:
    """Return why a worker is gone; Ray's own words fill a screen."""
    words = str(error)
    if "memory" in words and "OOM killer" not in words:  # which it names as one cause of many
        return "its machine ran out of memory"
    return "its machine is gone" if "node" in words.lower() and "died" in words else "it died"


def _shorten(error: BaseException) -> str:
    """Return the first lines of what Ray says, as one."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return " ".join(line for line in lines[:3] if line) or type(error).__name__
