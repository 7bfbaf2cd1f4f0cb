"""Reads the tensors of a TensorFlow checkpoint, as OpenAI's GPT-2 and its fine-tunes have them.

The format is that of `tf.train.Saver`: an index, and shards that are nothing but the tensors' bytes
(`tensor_bundle.h` of TensorFlow). The names are those of openai/gpt-2 `src/model.py` @ 9b63575.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from numpy.typing import NDArray

from export.crc32c import masked_crc32c
from export.errors import list_some
from export.safetensors_file import DTYPES, Shape, TensorFileError, TensorInfo, read_flat
from export.tensorflow_index import Entry, TensorflowIndex

_WEIGHT: Final = re.compile(
    r"model/(?:(?P<embedding>wte|wpe)"
    r"|(?:h(?P<layer>\d+)/)?(?P<part>ln_[12f]|attn/c_attn|attn/c_proj|mlp/c_fc|mlp/c_proj)"
    r"/(?P<kind>[gwb]))"
)
_KINDS: Final = {"g": "weight", "w": "weight", "b": "bias"}
# What training keeps beside the weights: an optimizer's variables for each weight (Adam's, and
# Adafactor's as tensor2tensor names them), its own, and counters.
_TRAINING: Final = re.compile(
    rf"{_WEIGHT.pattern}(/|_slot_).+"
    r"|(.+/)?(global_step|beta[12]_power(_\d+)?|learning_rate|Variable(_\d+)?)"
)
# What else people have, by a part of the names in it.
_OTHER_MODELS: Final = {
    ".ATTRIBUTES/": "what TensorFlow 2 keeps as objects",
    "newslm/": "GROVER",
    "bert/": "BERT",
    "electra/": "ELECTRA",
}


class TensorflowShard:
    """One open file of tensors' bytes."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Take `file`, which is `path` opened."""
        self.name = path.name
        self.file = file
        self.size = path.stat().st_size


class TensorflowFile:
    """The weights of one checkpoint under the published names; training's variables left out.

    A matrix, which is stored as [1, in, out], is [in, out].
    """

    def __init__(
        self, index: TensorflowIndex, open_shard: Callable[[int], TensorflowShard]
    ) -> None:
        """Relate the names of `index` to GPT-2's, and look whether the shards can hold them.

        Raises:
            TensorFileError: if it is another model's, or damaged.
            CheckpointError: whatever `open_shard` raises.
        """
        entries = {n: e for n, e in index.entries.items() if not _TRAINING.fullmatch(n)}
        _refuse_other_model(entries)
        self._shards = {n: open_shard(n) for n in _find_shards(entries, index.shards)}
        self._entries: dict[str, Entry] = {}
        self._checked: set[str] = set()
        self.tensors: dict[str, TensorInfo] = {}
        for stored, entry in entries.items():
            name = _publish(stored)
            if name in self.tensors:
                raise TensorFileError(f"{name} occurs twice, also as {stored}")
            if name != stored:
                self._check_entry(stored, entry)
            self._entries[name] = entry
            self.tensors[name] = TensorInfo(entry.dtype, _drop_first_axis(name, entry.shape))

    def _check_entry(self, stored: str, entry: Entry) -> None:
        if entry.in_slices:
            raise TensorFileError(f"{stored} was saved in slices: not implemented")
        if entry.dtype not in DTYPES:  # told with the other faults
            return
        size = math.prod(entry.shape) * DTYPES[entry.dtype].itemsize
        if size != entry.size:
            fault = f"{stored} has {entry.size} bytes in the index, {size} by its shape"
            raise TensorFileError(fault)
        shard = self._shards[entry.shard]
        if entry.offset + size > shard.size:
            fault = f"{shard.name} ends too early, after {shard.size} bytes, for {stored}"
            raise TensorFileError(f"{fault}; copy or download it again")

    def read(self, name: str) -> NDArray[Any]:
        """Return one weight in its own dtype; at its first time its checksum is compared."""
        entry, info = self._entries[name], self.tensors[name]
        shard = self._shards[entry.shard]
        flat = read_flat(shard.file, entry.offset, math.prod(info.shape), info.dtype)
        if name not in self._checked and masked_crc32c(flat) != entry.checksum:
            fault = f"its checksum in {shard.name} is wrong, the file is damaged"
            raise TensorFileError(f"{fault}; copy or download it again")
        self._checked.add(name)
        return flat.reshape(info.shape)


def _find_shards(entries: Mapping[str, Entry], shards: int) -> list[int]:
    used = sorted({entry.shard for entry in entries.values()})
    if used[-1] >= shards:
        raise TensorFileError(f"it names shard {used[-1]} (from 0), but says that it has {shards}")
    return used


def _publish(stored: str) -> str:
    """Return the published name of a GPT-2 weight; any other name as it is."""
    found = _WEIGHT.fullmatch(stored)
    if found is None:
        return stored
    if found["embedding"]:
        return f"{found['embedding']}.weight"
    layer = "" if found["layer"] is None else f"h.{found['layer']}."
    return f"{layer}{found['part'].replace('/', '.')}.{_KINDS[found['kind']]}"


def _drop_first_axis(name: str, shape: Shape) -> Shape:
    """Return the shape of a Conv1D weight, which OpenAI's code convolves with one of width 1."""
    is_matrix = ".c_" in name and name.endswith(".weight") and len(shape) == 3
    return shape[1:] if is_matrix and shape[0] == 1 else shape


def _refuse_other_model(names: Collection[str]) -> None:
    if any(_WEIGHT.fullmatch(name) for name in names):
        return
    known = (model for part, model in _OTHER_MODELS.items() if any(part in n for n in names))
    found = f"{next(known, 'another model')} ({list_some(sorted(names)) or 'no weights'})"
    raise TensorFileError(f"it holds {found}; expected OpenAI's names of GPT-2 (model/wte, …)")
