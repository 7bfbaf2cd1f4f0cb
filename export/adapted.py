"""Merges adapters into the weights of a checkpoint: each when it is read, so one is in memory.

Several adapters are merged one after the other, as peft 0.21.2 does when each is merged before the
next is loaded. One thing is otherwise: where one matrix is wte and lm_head, LoRA on one of the two
changes that one only, as while it was trained; peft's own merge changes both.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from export.adapter import (
    Adapter,
    Change,
    Offset,
    Product,
    Replacement,
    find_tokenizer,
    resize,
)
from export.checkpoint import Checkpoint
from export.config import GPT2Config
from export.errors import list_some
from export.weights import Array, Shape, expected_weights

_WTE: Final = "wte.weight"
_HEAD: Final = "lm_head.weight"


class Adapted:
    """The weights of a checkpoint with adapters merged into them; each is merged when it is read.

    `config` says what they are: vocab_size and tie_word_embeddings may differ from the base's.
    """

    def __init__(self, base: Checkpoint, config: GPT2Config, adapters: Sequence[Adapter]) -> None:
        """Work out what changes; reads wte and lm_head where adapters hold both.

        Raises:
            CheckpointError: if these cannot be read.
        """
        self._base = base
        self._was_tied = config.tie_word_embeddings
        self._vocab_size = config.vocab_size
        self._adapters = adapters
        self._chains: dict[str, tuple[Change, ...]] = {}
        for adapter in adapters:
            self._apply(adapter)
        self.config = dataclasses.replace(
            resize(config, adapters), tie_word_embeddings=self._is_tied
        )
        self.tokenizer_folder = find_tokenizer(adapters)  # None: the checkpoint's own
        self.notes = [*base.notes, *(note for adapter in adapters for note in adapter.notes)]

    @property
    def changed_fields(self) -> dict[str, Any]:
        """The fields of config.json that are no longer the base's."""
        fields: dict[str, Any] = {}
        if self.config.vocab_size != self._vocab_size:
            fields["vocab_size"] = self.config.vocab_size
        if self.config.tie_word_embeddings != self._was_tied:
            fields["tie_word_embeddings"] = self.config.tie_word_embeddings
        return fields

    def find_other_bases(self, name: str) -> list[str]:
        """Return a note for each adapter that was made for a model of another name."""
        return [
            f"adapter {adapter.folder} was made for {adapter.config.base}, not for {name}"
            for adapter in self._adapters
            if adapter.config.base and _last_part(adapter.config.base) != _last_part(name)
        ]

    def read(self, name: str) -> Array:
        """Return one weight as float32, merged, in its published shape.

        Raises:
            CheckpointError: if it is damaged, here or in the base.
        """
        whole, changes = self._split(name)
        if whole is None:
            own = name != _HEAD or not self._was_tied
            weight = self._base.read(name if own else _WTE)
        else:
            weight = whole.tensor.read()
        if not changes:
            return weight
        weight = np.require(weight, requirements="W")
        with np.errstate(over="ignore", invalid="ignore"):
            for change in changes:
                change.add_to(weight)
        return weight

    def find_faults(self) -> list[str]:
        """Return every reason why the adapters do not fit; reads all weights that they change."""
        shapes = expected_weights(self.config)
        misfits: dict[Path, list[str]] = {}
        for name, shape in shapes.items():
            for folder, fault in self._find_misfits(name, shape):
                misfits.setdefault(folder, []).append(fault)
        for adapter in self._adapters:
            unknown = adapter.changes.keys() - shapes.keys() - {_HEAD}
            if unknown:
                fault = f"the base has no {list_some(sorted(unknown))}"
                misfits.setdefault(adapter.folder, []).insert(0, fault)
        bases = {adapter.folder: adapter.config.base for adapter in self._adapters}
        faults = [_describe_misfits(a, found, bases[a]) for a, found in misfits.items()]
        faults += self._find_lacking()
        changed = [] if faults else [name for name in shapes if self._chains.get(name)]
        return faults + [
            f"{name} holds NaN or infinity once the adapters are merged"
            for name in changed
            if not np.isfinite(self.read(name)).all()
        ]

    def _apply(self, adapter: Adapter) -> None:
        wte, head = (list(adapter.changes.get(name, ())) for name in (_WTE, _HEAD))
        if self._is_tied and not adapter.config.saves_wte:
            # A whole wte that was not trained by itself is the resized matrix of both.
            head[:0] = [change for change in wte if isinstance(change, Replacement)]
        changes = {**adapter.changes, _WTE: wte, _HEAD: head}
        for name, added in changes.items():
            self._chains[name] = (*self._chains.get(name, ()), *added)
        if self._was_tied and not self._is_tied and self._are_same():
            self._chains[_HEAD] = self._chains[_WTE]

    @property
    def _is_tied(self) -> bool:
        """Whether wte is lm_head too, after what was merged until now."""
        return self._was_tied and self._chains.get(_HEAD) == self._chains.get(_WTE)

    def _are_same(self) -> bool:
        """Tell whether wte and lm_head, both given whole, are the same numbers."""
        (wte, more), (head, others) = self._split(_WTE), self._split(_HEAD)
        if wte is None or head is None or more or others:
            return False
        same_shape = wte.tensor.shape == head.tensor.shape
        return same_shape and np.array_equal(wte.tensor.read(), head.tensor.read())

    def _split(self, name: str) -> tuple[Replacement | None, Sequence[Product | Offset]]:
        """Return what takes the base's place, the last such, and what is added after it."""
        whole: Replacement | None = None
        added: list[Product | Offset] = []
        for change in self._chains.get(name, ()):
            if isinstance(change, Replacement):
                whole, added = change, []
            else:
                added.append(change)
        return whole, added

    def _find_misfits(self, name: str, shape: Shape) -> Iterator[tuple[Path, str]]:
        whole, added = self._split(name)
        for change in (*([whole] if whole else []), *added):
            fault = change.find_fault(shape)
            if fault is not None:
                yield change.tensor.adapter, fault

    def _find_lacking(self) -> list[str]:
        """Return what is of the old vocabulary where an adapter changes its size."""
        size = self.config.vocab_size
        if size == self._vocab_size or self.config.tie_word_embeddings:
            return []
        if self._split(_HEAD)[0] is not None:
            return []
        return [
            f"an adapter changes vocab_size from {self._vocab_size} to {size}, but has no lm_head"
        ]


def _last_part(name: str) -> str:
    """Return what distinguishes a model: gpt2 and openai-community/gpt2 are the same one."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1].lower()


def _describe_misfits(adapter: Path, faults: Sequence[str], base: str) -> str:
    more = f", and {len(faults) - 1} more do not fit" if len(faults) > 1 else ""
    made = f"; it was made for {base}" if base else ""
    return f"adapter {adapter}: {faults[0]}{more}{made}"
