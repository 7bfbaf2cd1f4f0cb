"""What a diagnosis holds: facts, and the problems that follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """What came of running the starter model on the device that was asked for."""

    asked: str
    ran_on: str | None = None  # None: nowhere
    precision: str | None = None
    milliseconds: float | None = None  # of one decoded token
    reason: str | None = None  # why not on CUDA, or not at all
    nodes_on_cpu: Mapping[str, int] = field(default_factory=dict)  # operator -> how many


@dataclass(frozen=True, slots=True)
class Cuda:
    """What the driver and the libraries say of CUDA."""

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
class CheckedModel:
    """A model in the cache, or a folder of the user's own, and what is wrong with it."""

    name: str
    precision: str
    path: str
    size: int  # bytes
    fault: str | None
    cached: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not work, or not well; `advice` mends it."""

    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found. `works`: all that was asked for can be done."""

    system: str
    python: str
    cpu: str
    cores: int | None
    versions: Mapping[str, str]
    providers: Sequence[str]
    cuda: Cuda
    step: Step
    places: Sequence[Place]
    hub: HubAnswer
    models: Sequence[CheckedModel]
    verified: bool
    problems: Sequence[Problem]
    works: bool
