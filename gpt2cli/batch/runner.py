"""What runs the records of a batch: the engine of this process, or workers elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpt2cli.batch.config import InputOutput
from gpt2cli.resumable.input import ItemSource, Line
from gpt2cli.settings import Settings
from gpt2cli.store.store import StoredModel
from gpt2cli.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    settings: Settings
    io: InputOutput
    seed: int
    jsonl: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a text depends on beside its record, and what a record is parsed by."""

    stored: StoredModel
    tokenizer: Tokenizer
    most_beams: int
    device: str
    versions: Mapping[str, str]


class Runner(Protocol):
    """Makes the lines of records, the model's own settings being known."""

    @property
    def conditions(self) -> Conditions:
        """What its model is."""
        ...

    def run(
        self, items: ItemSource[Any], show: Callable[[Line], None], interrupted: Callable[[], bool]
    ) -> None:
        """Show the lines of all records, in order, until it is interrupted.

        Raises:
            Gpt2Error: if the input cannot be read, or the model fails.
        """
        ...

    def tell_progress(self) -> str:
        """Return what there is to tell beside records and tokens."""
        ...

    def describe(self, *, seed: int, from_model: Mapping[str, Any]) -> Sequence[str]:
        """Return the lines of --stats."""
        ...
