"""Reads the weights of a checkpoint folder, one array at a time, under one set of names.

Names are the published ones without the `transformer.` prefix: `wte.weight`,
`h.0.attn.c_attn.weight`, … Conv1D weights stay as stored, [in, out].
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import ml_dtypes  # noqa: F401  # gives numpy the name "bfloat16"; safetensors' numpy reader needs it
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from export.config import GPT2Config
from export.errors import CheckpointError

Shape = tuple[int, ...]
Array = NDArray[np.float32]

_DTYPES: Final = ("F32", "F16", "BF16")
# Causal-mask buffers of older checkpoints; the graph has its own mask.
_MASK_BUFFER: Final = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")


class Weights(Protocol):
    """What the graph's writer and the oracle need of a source of weights."""

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape."""
        ...


def expected_weights(config: GPT2Config) -> dict[str, Shape]:
    """Return the name and shape of every weight that `config` calls for, in the model's order."""
    embd, inner = config.n_embd, config.n_inner
    shapes: dict[str, Shape] = {
        "wte.weight": (config.vocab_size, embd),
        "wpe.weight": (config.n_positions, embd),
    }
    for layer in range(config.n_layer):
        block: dict[str, Shape] = {
            "ln_1.weight": (embd,),
            "ln_1.bias": (embd,),
            "attn.c_attn.weight": (embd, 3 * embd),
            "attn.c_attn.bias": (3 * embd,),
            "attn.c_proj.weight": (embd, embd),
            "attn.c_proj.bias": (embd,),
            "ln_2.weight": (embd,),
            "ln_2.bias": (embd,),
            "mlp.c_fc.weight": (embd, inner),
            "mlp.c_fc.bias": (inner,),
            "mlp.c_proj.weight": (inner, embd),
            "mlp.c_proj.bias": (embd,),
        }
        shapes |= {f"h.{layer}.{name}": shape for name, shape in block.items()}
    shapes |= {"ln_f.weight": (embd,), "ln_f.bias": (embd,)}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, embd)
    return shapes


class Checkpoint:
    """The weights of one checkpoint folder; holds no array, reads each when asked."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        names: list[str] = list(file.keys())
        self._stored_names = {_normalise(name): name for name in names}
        self._twice = sorted(
            _normalise(name) for name in names if self._stored_names[_normalise(name)] != name
        )

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape.

        Raises:
            CheckpointError: if the file ends before the weight does.
        """
        try:
            stored = self._file.get_tensor(self._stored_names[name])
        except SafetensorError as error:
            raise CheckpointError(self._path.parent, [f"{name} cannot be read: {error}"]) from error
        array: Array = np.ascontiguousarray(stored, dtype=np.float32)
        return array

    def find_faults(self, config: GPT2Config) -> list[str]:
        """Return every reason why these weights are not those of `config`; reads all of them."""
        expected = expected_weights(config)
        tied_head = {"lm_head.weight"} if config.tie_word_embeddings else set()
        faults = [f"{n} is there twice, once as transformer.{n}" for n in self._twice]
        faults += [f"{n} is missing" for n in expected if n not in self._stored_names]
        faults += [
            f"{n} is not a GPT-2 weight"
            for n in sorted(self._stored_names)
            if n not in expected and n not in tied_head and not _MASK_BUFFER.fullmatch(n)
        ]
        for name, shape in expected.items():
            if name in self._stored_names:
                faults += self._find_tensor_faults(name, shape)
        if not faults and "lm_head.weight" in tied_head & self._stored_names.keys():
            faults += self._find_head_faults(config)
        return faults

    def _find_tensor_faults(self, name: str, shape: Shape) -> list[str]:
        stored = self._file.get_slice(self._stored_names[name])
        dtype, found = stored.get_dtype(), tuple(stored.get_shape())
        faults = []
        if dtype not in _DTYPES:
            faults.append(f"{name}: expected dtype F32, F16 or BF16, found {dtype}")
        if found != shape:
            faults.append(f"{name}: expected shape {list(shape)}, found {list(found)}")
        if not faults and not np.isfinite(self.read(name)).all():
            faults.append(f"{name} holds NaN or infinity")
        return faults

    def _find_head_faults(self, config: GPT2Config) -> list[str]:
        """Guard against a head of its own in a file whose config says that there is none."""
        shape = (config.vocab_size, config.n_embd)
        faults = self._find_tensor_faults("lm_head.weight", shape)
        if not faults and not np.array_equal(self.read("lm_head.weight"), self.read("wte.weight")):
            faults.append(
                "lm_head.weight differs from wte.weight though tie_word_embeddings is true; "
                "set it to false in config.json to use lm_head.weight"
            )
        return faults


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Checkpoint]:
    """Open the weights of a checkpoint folder.

    Raises:
        CheckpointError: if there is no readable `model.safetensors`.
    """
    path = folder / "model.safetensors"
    if not path.is_file():
        raise CheckpointError(folder, ["model.safetensors is missing"])
    try:
        file = safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(folder, [f"model.safetensors cannot be read: {error}"]) from error
    with file:
        yield Checkpoint(path, file)


class ArrayWeights:
    """Weights that are already in memory, by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def read(self, name: str) -> Array:
        """Return one weight."""
        return self._arrays[name]


def _normalise(stored_name: str) -> str:
    return stored_name.removeprefix("transformer.")
