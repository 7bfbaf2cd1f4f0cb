"""What driver and workers send each other; all of it can be pickled."""

from dataclasses import dataclass, field
from typing import Any

from gpt2cli.config import DraftConfig, ModelConfig
from gpt2cli.errors import PromptError
from gpt2cli.resumable.input import InputRecord, Line
from gpt2cli.settings import Settings
from gpt2cli.store.store import StoredModel

# A record as it stands in the input: its index, and its bytes, or why it cannot be read.
Parcel = tuple[int, bytes | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker needs to know before its first record."""

    stored: StoredModel  # as the driver has it
    by_name: bool  # whether a machine that lacks the folder can get the model itself
    model: ModelConfig
    model_names: frozenset[str]  # that a record may call it by
    draft: DraftConfig
    settings: Settings  # with the model's own
    seed: int
    jsonl: bool
    as_text: bool
    extra_fields: str
    batch_size: int | None
    version: str  # of this program


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker has loaded the model."""

    node: str  # the machine's name
    slots: int
    most_beams: int
    threads: int
    device: str
    fingerprint: str  # of the weights that it has
    versions: dict[str, str]
    bits: str  # a digest of what it computes


@dataclass(frozen=True, slots=True)
class Lacking:
    """A worker's machine has no such model folder, and cannot get it by a name."""

    node: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker cannot work: `reason` is one line. If `for_all`, no other one could."""

    reason: str
    for_all: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """A worker has died; it begins anew, and is then ready again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker has finished since the last reply: all lines of each record."""

    done: list[list[Line]] = field(default_factory=list)
    failure: str | None = None  # why it can do nothing more


Event = Ready | Refused | Gone | Reply


def pack(record: InputRecord) -> Parcel:
    """Return a record as it is sent."""
    data: Any = record.data
    return record.index, data if isinstance(data, bytes) else str(data)


def unpack(parcel: Parcel) -> InputRecord:
    """Return a record that was sent."""
    index, data = parcel
    return InputRecord(index, data if isinstance(data, bytes) else PromptError(data))
