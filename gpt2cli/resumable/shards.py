"""Shares an input out among runs that know nothing of one another: each takes every n-th group."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from gpt2cli.errors import PromptError

# Records in a row that one run takes: what neighbours begin with alike is then still read once,
# as a batch keeps the beginnings of so many.
GROUP: Final = 32


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, from 1: the groups at `number` − 1, and every `count` after it."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a shard as it is written, such as 2/8.

        Raises:
            ValueError: if it is none.
        """
        shard = cls(*map(int, text.split("/", 1)))
        if not 1 <= shard.number <= shard.count or str(shard) != text:
            raise ValueError
        return shard

    def __str__(self) -> str:
        """Return the shard as it is written."""
        return f"{self.number}/{self.count}"

    def holds(self, index: int) -> bool:
        """Tell whether the record at `index` of the whole input, from 0, belongs to the shard."""
        return index // GROUP % self.count == self.number - 1

    def index_of(self, position: int) -> int:
        """Return the index in the whole input of the shard's record at `position`, from 0."""
        group, place = divmod(position, GROUP)
        return (group * self.count + self.number - 1) * GROUP + place


WHOLE: Final = Shard()


class ShardPicker:
    """Picks a shard's records out of an input, and says at its end what the input was.

    It is called with each record in order, by the thread that reads them, which skips faster than
    the one that runs the model could.
    """

    def __init__(self, shard: Shard, is_blank: Callable[[bytes | PromptError], bool]) -> None:
        """`is_blank` tells which records count for nothing."""
        self._shard = shard
        self._is_blank = is_blank
        self._digest = hashlib.sha256()
        self.records = 0  # of the whole input, so far

    def __call__(self, record: bytes | PromptError) -> bool:
        """Tell whether the next record belongs to the shard."""
        if self._is_blank(record):
            return False
        data = record if isinstance(record, bytes) else str(record).encode()
        self._digest.update(b"%d:%b" % (len(data), data))  # so that cuts between records count
        self.records += 1
        return self._shard.holds(self.records - 1)

    @property
    def digest(self) -> str:
        """A digest of all records so far."""
        return self._digest.copy().hexdigest()[:16]
