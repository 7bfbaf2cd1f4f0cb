"""Reads adapters that peft trained, LoRA: what they change of each weight.

Names, files and formulas are those of peft 0.21.2.

| in an adapter's file, below `base_model.model.` | what becomes of it |
|---|---|
| `M.lora_A.weight` [r, in], `M.lora_B.weight` [out, r] of a Conv1D [in, out] | + scale · (B·A)ᵀ |
| the same of lm_head [out, in] | + scale · B·A |
| `M.lora_embedding_A` [r, rows], `M.lora_embedding_B` [E, r] of wte and wpe [rows, E] | + scale · (B·A)ᵀ |
| `M.lora_B.bias` | + scale · it, to the bias |
| whole weights (`modules_to_save`, `bias`, resized embeddings) | take the place of the base's |

Which modules they are is told by the file alone: target_modules, exclude_modules and the like only
say where training put them. fan_in_fan_out says nothing that the kind of the module does not.
"""  # noqa: E501 (a table's row is a line)

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from export.adapter_config import AdapterConfig, read_adapter_config
from export.checkpoint import FLOATS, MASK_BUFFER, FileType, open_file
from export.config import GPT2Config
from export.errors import CheckpointError, list_some
from export.safetensors_file import SafetensorsFile, TensorFile, TensorFileError
from export.torch_file import TorchFile
from export.weights import OTHER_HEAD, Array, Shape

WEIGHTS_FILES: Final[Mapping[str, FileType]] = {
    "adapter_model.safetensors": SafetensorsFile,
    "adapter_model.bin": TorchFile,
}

_BLOCK_ROWS: Final = 4096  # of a product in memory
_MISSING: Final = "adapter_model.safetensors is missing, and so is adapter_model.bin"
_OUTER: Final = "base_model.model."
_PART: Final = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_embedding_A|lora_embedding_B)"
    r"(\.default)?(?P<kind>\.weight|\.bias)?"
)
_KINDS: Final = ("A", "B", "B.bias")
# Of the layers that peft puts around a module.
_WRAPPERS: Final = re.compile(r"\.(base_layer|modules_to_save(\.default)?)(?=\.)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of an adapter's file, before it is read."""

    adapter: Path
    file: TensorFile = field(repr=False)
    name: str

    @property
    def shape(self) -> Shape:
        """Its axes."""
        return self.file.tensors[self.name].shape

    def read(self) -> Array:
        """Return it as float32, or raise CheckpointError."""
        try:
            stored = self.file.read(self.name)
        except (TensorFileError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            fault = f"adapter {self.adapter}: {self.name} cannot be read: {reason}"
            raise CheckpointError(self.adapter, [fault]) from error
        with np.errstate(over="ignore"):
            return stored.astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A whole weight, in place of the base's."""

    tensor: Tensor

    def find_fault(self, shape: Shape) -> str | None:
        """Return why it does not fit a weight of this shape."""
        return _compare(self.tensor, shape)


@dataclass(frozen=True, slots=True)
class Product:
    """What LoRA adds to a weight: scale · left · right, [rows, r] · [r, columns]."""

    a: Tensor
    b: Tensor
    rank: int
    scale: float
    is_linear: bool  # the weight is [out, in]; else, as of Conv1D and Embedding, [in, out]

    @property
    def tensor(self) -> Tensor:
        """One tensor of it, which tells whose it is."""
        return self.a

    def find_fault(self, shape: Shape) -> str | None:
        """Return why it does not fit a weight of this shape."""
        if len(shape) != 2:
            return f"{self.a.name} belongs to no matrix"
        outer, inner = shape if self.is_linear else shape[::-1]
        return _compare(self.a, (self.rank, inner)) or _compare(self.b, (outer, self.rank))

    def add_to(self, weight: Array) -> None:
        """Add it in place, a block of rows after the other."""
        a, b = self.a.read() * np.float32(self.scale), self.b.read()
        left, right = (b, a) if self.is_linear else (a.T, b.T)
        for start in range(0, len(weight), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            weight[rows] += left[rows] @ right


@dataclass(frozen=True, slots=True)
class Offset:
    """What LoRA adds to a bias: scale · tensor."""

    tensor: Tensor
    scale: float

    def find_fault(self, shape: Shape) -> str | None:
        """Return why it does not fit a bias of this shape."""
        return _compare(self.tensor, shape)

    def add_to(self, weight: Array) -> None:
        """Add it in place."""
        weight += self.tensor.read() * np.float32(self.scale)


Change = Replacement | Product | Offset


def _compare(tensor: Tensor, expected: Shape) -> str | None:
    dtype = tensor.file.tensors[tensor.name].dtype
    if dtype not in FLOATS:
        return f"{tensor.name} has dtype {dtype}, expected {', '.join(FLOATS)}"
    if tensor.shape != expected:
        return f"{tensor.name} has shape {list(tensor.shape)}, expected {list(expected)}"
    return None


@dataclass(frozen=True, slots=True)
class Adapter:
    """One open adapter: what it changes of each weight, by the published name, in order."""

    folder: Path
    config: AdapterConfig
    changes: Mapping[str, Sequence[Change]]
    notes: Sequence[str]

    @property
    def vocab_size(self) -> int | None:
        """How many rows its own wte has; None if it has none."""
        whole = [c for c in self.changes.get("wte.weight", ()) if isinstance(c, Replacement)]
        return whole[-1].tensor.shape[0] if whole and whole[-1].tensor.shape else None


@contextmanager
def open_adapters(source: Path, folders: Iterable[Path]) -> Iterator[list[Adapter]]:
    """Open the adapters for a checkpoint.

    Raises:
        CheckpointError: with all that is wrong with any of them, or not implemented.
    """
    adapters: list[Adapter] = []
    faults: list[str] = []
    with ExitStack() as opened:
        for folder in folders:
            try:
                adapters.append(_open(folder, opened))
            except CheckpointError as error:
                faults += [f"adapter {folder}: {fault}" for fault in error.faults]
            except OSError as error:  # a folder that may not be entered
                faults.append(f"adapter {folder}: cannot be read: {error.strerror}")
        if faults:
            raise CheckpointError(source, faults)
        yield adapters


def resize(config: GPT2Config, adapters: Iterable[Adapter]) -> GPT2Config:
    """Return the configuration with the vocabulary that adapters make."""
    sizes = [adapter.vocab_size for adapter in adapters if adapter.vocab_size]
    return dataclasses.replace(config, vocab_size=[config.vocab_size, *sizes][-1])


def find_tokenizer(adapters: Iterable[Adapter]) -> Path | None:
    """Return the folder of the last adapter that came with the tokenizer it was trained with."""
    forms = (("tokenizer.json",), ("vocab.json", "merges.txt"))
    folders = [
        adapter.folder
        for adapter in adapters
        if any(all((adapter.folder / name).is_file() for name in names) for names in forms)
    ]
    return folders[-1] if folders else None


def _open(folder: Path, opened: ExitStack) -> Adapter:
    config = read_adapter_config(folder)
    found = next((name for name in WEIGHTS_FILES if (folder / name).exists()), None)
    if found is None:
        raise CheckpointError(folder, [_MISSING])
    file = open_file(folder / found, WEIGHTS_FILES[found], opened)
    changes, notes = _Reader(folder, file, config).read()
    return Adapter(folder, config, changes, notes)


class _Reader:
    """Finds out what each tensor of one adapter's file is."""

    def __init__(self, folder: Path, file: TensorFile, config: AdapterConfig) -> None:
        self._folder = folder
        self._config = config
        self._tensors = {name: Tensor(folder, file, name) for name in sorted(file.tensors)}
        self._changes: dict[str, list[Change]] = {}
        self._parts: dict[str, dict[str, Tensor]] = {}  # by module
        self._paths: dict[str, str] = {}  # what patterns see of a module's name
        self._faults: list[str] = []
        self._heads: set[str] = set()

    def read(self) -> tuple[Mapping[str, Sequence[Change]], Sequence[str]]:
        """Return what is changed of each weight, and notes; or raise CheckpointError."""
        for name, tensor in self._tensors.items():
            inner = name.removeprefix(_OUTER)
            if head := OTHER_HEAD.fullmatch(_publish(inner)):
                self._heads.add(f"{head[1]}.*")
            elif part := _PART.fullmatch(inner):
                self._take_part(part, tensor)
            elif not MASK_BUFFER.fullmatch(_publish(inner)):
                self._change(_publish(inner), Replacement(tensor))
        for module, parts in self._parts.items():
            self._add(module, parts)
        if not self._tensors:
            self._faults.append("it holds no tensors")
        if self._faults:
            raise CheckpointError(self._folder, self._faults)
        left_out = f"{list_some(sorted(self._heads))} of {self._folder} was left out"
        notes = [f"{left_out}; the language model does not use it"] if self._heads else []
        return self._changes, notes

    def _take_part(self, part: re.Match[str], tensor: Tensor) -> None:
        kind = part["part"][-1] + (part["kind"] or "").removeprefix(".weight")
        parts = self._parts.setdefault(_publish(part["module"]), {})
        if kind not in _KINDS or kind in parts:
            self._faults.append(f"{tensor.name} is not known, or is there twice")
        parts[kind] = tensor
        self._paths[_publish(part["module"])] = part["module"]

    def _add(self, module: str, parts: Mapping[str, Tensor]) -> None:
        missing = {"A", "B"} - parts.keys()
        if missing:
            self._faults.append(f"{module} lacks {' and '.join(sorted(missing))} of LoRA")
            return
        rank = self._config.find_rank(self._paths[module])
        scale = self._config.find_scale(self._paths[module])
        is_linear = module == "lm_head"
        self._change(f"{module}.weight", Product(parts["A"], parts["B"], rank, scale, is_linear))
        if "B.bias" in parts:
            self._change(f"{module}.bias", Offset(parts["B.bias"], scale))

    def _change(self, name: str, change: Change) -> None:
        changes = self._changes.setdefault(name, [])
        if any(type(other) is type(change) for other in changes):
            self._faults.append(f"{change.tensor.name} is there twice")
        changes.append(change)


def _publish(name: str) -> str:
    """Return the name that weights have here: without the layers around it."""
    return _WRAPPERS.sub("", name).removeprefix("transformer.")
