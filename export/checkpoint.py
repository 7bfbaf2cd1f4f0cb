"""Reads the weights of a checkpoint folder, one array at a time, from whatever files hold them."""

import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from export.config import GPT2Config, read_object
from export.errors import CheckpointError, list_some
from export.other_weights import find_others, list_names
from export.safetensors_file import SafetensorsFile, TensorFile, TensorFileError, TensorInfo
from export.small_files import LFS_POINTER
from export.tensorflow_file import TensorflowFile, TensorflowShard
from export.tensorflow_index import TensorflowIndex
from export.tensorflow_steps import INDEX_SUFFIX, choose_name
from export.torch_file import TorchFile
from export.weights import Array, Shape, expected_weights, find_published

_Opened = TypeVar("_Opened")
FileType = Callable[[Path, BinaryIO], TensorFile]

# What holds a checkpoint's weights: the first that is there counts, as in transformers. An index
# names the files, of the type beside it, that the weights are spread over.
_INDEX_SUFFIX: Final = ".index.json"
WEIGHTS_FILES: Final[Mapping[str, FileType]] = {
    "model.safetensors": SafetensorsFile,
    f"model.safetensors{_INDEX_SUFFIX}": SafetensorsFile,
    "pytorch_model.bin": TorchFile,
    f"pytorch_model.bin{_INDEX_SUFFIX}": TorchFile,
}
_ADAPTER_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")

FLOATS: Final = ("F32", "F16", "BF16", "F64")
_FLOATS_IN_WORDS: Final = f"{', '.join(FLOATS[:-1])} or {FLOATS[-1]}"
# Weights whose number of rows a field of config.json tells.
_SIZE_FIELDS: Final[Mapping[str, str]] = {
    "wte.weight": "vocab_size",
    "lm_head.weight": "vocab_size",
    "wpe.weight": "n_positions",
}
# Causal-mask buffers of older checkpoints; the graph has its own mask.
MASK_BUFFER: Final = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")


class Checkpoint:
    """The weights of one checkpoint folder; holds no array, reads each when asked."""

    def __init__(self, folder: Path, file: TensorFile, notes: Sequence[str] = ()) -> None:
        self._folder = folder
        self._file = file
        self._names = find_published(file.tensors)
        self._stored_names = self._names.stored
        # What the user should know of the choice of files, and of the names.
        self.notes: Sequence[str] = [*notes, *self._names.notes]

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape.

        Float64 is rounded; what float32 cannot hold becomes infinite.

        Raises:
            CheckpointError: if it is damaged, or the file ends before it does.
        """
        try:
            stored = self._file.read(self._stored_names[name])
        except (TensorFileError, OSError) as error:
            fault = f"{name} cannot be read: {_reason(error)}"
            raise CheckpointError(self._folder, [fault]) from error
        with np.errstate(over="ignore"):
            return stored.astype(np.float32, copy=False)

    def find_faults(self, config: GPT2Config) -> list[str]:
        """Return every reason why these weights do not fit `config`; reads all of them."""
        expected = expected_weights(config)
        tied_head = {"lm_head.weight"} if config.tie_word_embeddings else set()
        faults = list(self._names.faults)
        missing = [n for n in expected if n not in self._stored_names]
        if missing:
            faults.append(f"{list_some(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        unknown = sorted(
            stored
            for n, stored in self._stored_names.items()
            if n not in expected and n not in tied_head and not MASK_BUFFER.fullmatch(n)
        )
        if unknown:
            faults.append(_describe_unknown(unknown))
        for name, shape in expected.items():
            if name in self._stored_names:
                faults += self._find_tensor_faults(name, shape)
        if not faults and "lm_head.weight" in tied_head & self._stored_names.keys():
            faults += self._find_head_faults(config)
        return faults

    def _find_tensor_faults(self, name: str, shape: Shape) -> list[str]:
        stored = self._file.tensors[self._stored_names[name]]
        faults = []
        if stored.dtype not in FLOATS:
            faults.append(f"{name}: expected dtype {_FLOATS_IN_WORDS}, found {stored.dtype}")
        if stored.shape != shape:
            faults.append(_describe_shape(name, shape, stored.shape))
        if faults:
            return faults
        try:
            values = self.read(name)
        except CheckpointError as error:
            return list(error.faults)
        if np.isfinite(values).all():
            return []
        beyond = " (or numbers that float32 cannot hold)" if stored.dtype == "F64" else ""
        return [f"{name} holds NaN or infinity{beyond}"]

    def _find_head_faults(self, config: GPT2Config) -> list[str]:
        """Guard against an output matrix of its own where the config says that it is tied."""
        shape = (config.vocab_size, config.n_embd)
        faults = self._find_tensor_faults("lm_head.weight", shape)
        if not faults and not np.array_equal(self.read("lm_head.weight"), self.read("wte.weight")):
            faults.append(
                "lm_head.weight differs from wte.weight though tie_word_embeddings is true; "
                "set it to false in config.json to use lm_head.weight"
            )
        return faults


class ShardedFile:
    """The tensors of several files, spread over them by an index, as Hugging Face writes them.

    `X.index.json` holds a `weight_map`: the file, beside it, that each tensor lies in.
    """

    def __init__(self, index: Path, open_shard: Callable[[Path], TensorFile]) -> None:
        """Open every shard that `index` names, or raise CheckpointError."""
        listed = _read_weight_map(index)
        faults: list[str] = []
        self._shards: dict[str, TensorFile] = {}  # by tensor
        self.tensors: dict[str, TensorInfo] = {}
        for shard in sorted(set(listed.values())):
            try:
                file = open_shard(index.parent / shard)
            except CheckpointError as error:
                faults += error.faults
                continue
            twice = [name for name in file.tensors if name in self._shards]
            faults += [f"{name} lies in {shard} and in another shard" for name in twice]
            lacking = [n for n, s in listed.items() if s == shard and n not in file.tensors]
            faults += [f"{n} is not in {shard}, though {index.name} says so" for n in lacking]
            self._shards |= dict.fromkeys(file.tensors, file)
            self.tensors |= file.tensors
        if faults:
            raise CheckpointError(index.parent, faults)

    def read(self, name: str) -> NDArray[Any]:
        """Return one tensor, as its shard does."""
        return self._shards[name].read(name)


def _read_weight_map(index: Path) -> Mapping[str, str]:
    listed = read_object(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(s, str) for s in listed.values()):
        raise CheckpointError(index.parent, [f"{index.name} has no weight_map of files"])
    faults = [
        f"{index.name} names the shard {shard!r}, which is not a plain file name"
        for shard in sorted(set(listed.values()))
        if not _is_plain(shard)
    ]
    if faults or not listed:
        raise CheckpointError(index.parent, faults or [f"{index.name} lists no weights"])
    return listed


def _is_plain(name: str) -> bool:
    """Tell whether a name is a plain file name on every system: no separator, drive or stream."""
    return name not in ("", ".", "..") and not set(name) & {"/", "\\", ":", "\0"}


@contextmanager
def open_checkpoint(folder: Path, step: int | None = None) -> Iterator[Checkpoint]:
    """Open the weights of a folder: the first of `WEIGHTS_FILES`, else a TensorFlow checkpoint.

    With `step` it is the TensorFlow checkpoint of that step.

    Raises:
        CheckpointError: if there are none, or they cannot be read.
    """
    with ExitStack() as opened:
        for name, file_type in WEIGHTS_FILES.items() if step is None else ():
            if (folder / name).exists() or (folder / name).is_symlink():
                yield Checkpoint(folder, _open_weights(folder / name, file_type, opened))
                return
        chosen = choose_name(folder, step)
        if chosen is None:
            raise CheckpointError(folder, [_describe_missing(folder)])
        yield Checkpoint(folder, _open_tensorflow(folder, chosen.name, opened), chosen.notes)


def _open_weights(path: Path, file_type: FileType, opened: ExitStack) -> TensorFile:
    if path.name.endswith(_INDEX_SUFFIX):
        return ShardedFile(path, lambda shard: open_file(shard, file_type, opened))
    return open_file(path, file_type, opened)


def _open_tensorflow(folder: Path, name: str, opened: ExitStack) -> TensorFile:
    index_path = folder / f"{name}{INDEX_SUFFIX}"
    index = open_file(index_path, TensorflowIndex, opened)

    def open_shard(number: int) -> TensorflowShard:
        shard = f"{name}.data-{number:05d}-of-{index.shards:05d}"
        return open_file(folder / shard, TensorflowShard, opened)

    try:
        return TensorflowFile(index, open_shard)
    except TensorFileError as error:
        raise CheckpointError(folder, [f"{index_path.name}: {error}"]) from error


def open_file(
    path: Path, file_type: Callable[[Path, BinaryIO], _Opened], opened: ExitStack
) -> _Opened:
    """Open one file, which the stack closes, or raise CheckpointError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block
            raise TensorFileError("it is a folder, pipe or device, expected a file")
        file = opened.enter_context(path.open("rb"))
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise TensorFileError("it is a Git LFS pointer to the weights; run `git lfs pull`")
        file.seek(0)
        return file_type(path, file)
    except FileNotFoundError as error:
        fault = "is a link to a file that is missing" if path.is_symlink() else "is missing"
        raise CheckpointError(path.parent, [f"{path.name} {fault}"]) from error
    except (TensorFileError, OSError) as error:
        fault = f"{path.name} cannot be read: {_reason(error)}"
        raise CheckpointError(path.parent, [fault]) from error


def _reason(error: TensorFileError | OSError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _describe_missing(folder: Path) -> str:
    missing = "model.safetensors is missing, and so is pytorch_model.bin"
    names = list_names(folder)
    for name in _ADAPTER_WEIGHTS:
        if name in names:
            return f"{missing}; {name} is an adapter: name the model that it was made for"
    found, advice = find_others(str(folder), names) or ("", "")
    return f"{missing}; there is {found}: {advice}" if found else missing


def _describe_shape(name: str, expected: Shape, found: Shape) -> str:
    fault = f"{name}: expected shape {list(expected)}, found {list(found)}"
    if name in _SIZE_FIELDS and found[1:] == expected[1:]:
        return f"{fault} (the config has {_SIZE_FIELDS[name]} {expected[0]})"
    if found == expected[::-1]:
        return f"{fault} (transposed, as torch.nn.Linear keeps it; GPT-2's are Conv1D's)"
    return fault


def _describe_unknown(names: Sequence[str]) -> str:
    fault = "is not a GPT-2 weight" if len(names) == 1 else "are not GPT-2 weights"
    adapters = any(".lora_" in name for name in names)
    advice = "; merge the LoRA adapters into the model first" if adapters else ""
    return f"{list_some(names)} {fault}{advice}"
