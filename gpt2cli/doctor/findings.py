"""What the doctor finds, as it is printed in a record and on lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpt2cli.store.catalogue import CachedModel


@dataclass(frozen=True, slots=True)
class Step:
    """The result of running the starter model on the device that was asked for."""

    asked: str
    ran_on: str | None = None  # None: nowhere
    precision: str | None = None
    milliseconds: float | None = None  # of one decoded token
    reason: str | None = None  # why not on CUDA, or not at all
    # Which ways of computing a text have the same bits: rows, cuts and steps, as
    # `engine.Identities` has them; None: it was not measured, as on CUDA.
    identities: Mapping[str, bool | None] | None = None


@dataclass(frozen=True, slots=True)
class Cuda:
    """What the driver and the libraries say about CUDA."""

    devices: int = 0
    driver_version: str | None = None  # the newest CUDA that the driver runs
    needed_version: str | None = None  # that ONNX Runtime was built for; None: without CUDA
    reason: str | None = None  # why there is no device
    missing: Mapping[str, str] = field(default_factory=dict)  # library -> why it cannot be loaded
    advice: str | None = None  # what brings the libraries


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of ours, or of huggingface_hub's."""

    name: str
    path: str
    size: int  # bytes
    free: int  # bytes
    writable: bool


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """Whether the hub can be reached; None: it was not asked."""

    endpoint: str
    reached: bool | None
    seconds: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not work, or not well; `advice` says how to fix it."""

    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found. `works`: all that was asked for can be done."""

    system: str
    python: str
    cpu: str
    cores: int
    versions: Mapping[str, str]
    providers: Sequence[str]
    cuda: Cuda
    step: Step
    places: Sequence[Place]
    hub: HubAnswer
    models: Sequence[CachedModel]
    verified: bool
    problems: Sequence[Problem]
    works: bool
