"""The options of a batch that runs on a cluster."""

from dataclasses import dataclass

from gpt2cli.config import REPORT, Group
from gpt2cli.declarations import option
from gpt2cli.option_kinds import NAME, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(Group):
    """Where the workers of a batch run, and what each has of a machine."""

    cluster: str | None = option(
        None, "Run on a Ray cluster, with the bytes of one machine: auto (the one that this "
        "machine is part of), local (one made for this run), HOST:PORT or ray://HOST:PORT.", REPORT,
        kind=NAME, metavar="auto|local|ADDRESS", usual="in this process",
    )  # fmt: skip
    workers: int | None = option(
        None, "With --cluster: how many engines run.", REPORT,
        within=Range(1, 100_000), auto="auto", usual="auto: as many as there is room for",
    )  # fmt: skip
    cpus_per_worker: int | None = option(
        None, "With --cluster: CPU cores of each engine, and its threads.", REPORT,
        within=Range(1, 1024), usual="those of the smallest machine; 1 with --gpus-per-worker",
    )  # fmt: skip
    gpus_per_worker: float = option(
        0.0, "With --cluster: GPUs of each engine; a part of one if it is below 1.", REPORT,
        within=Range(0, 16),
    )  # fmt: skip
