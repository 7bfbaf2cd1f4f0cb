"""How each precision stores the weights: which of them lie in blocks, and what a block is."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Shape = tuple[int, ...]

# Weights of as many rows as the vocabulary, [V, E]; the other matrices are Conv1D's, [in, out].
VOCABULARY_WEIGHTS: Final = ("wte.weight", "lm_head.weight")
_MATRICES: Final = ("c_attn.weight", "c_proj.weight", "c_fc.weight")

FLOAT32: Final = np.dtype("<f4")
FLOAT16: Final = np.dtype("<f2")


class Precision(StrEnum):
    """A model folder's precision; one folder has one."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Whole numbers of `bits` bits, `size` of them with one scale, as MatMulNBits takes them.

    `accuracy_level` says in what the product is computed: 4 rounds what enters it to 8 bits, in
    blocks of the same size, and multiplies whole numbers.
    """

    bits: int
    size: int
    accuracy_level: int = 4

    @property
    def zero_point(self) -> int:
        """The stored number that stands for 0: the operator's own when it is given none."""
        return 1 << (self.bits - 1)

    def split(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return rows [N, K] in blocks, the last one padded with zeros: [N, K/size, size]."""
        rows, width = matrix.shape
        padded = np.zeros((rows, -(-width // self.size) * self.size), matrix.dtype)
        padded[:, :width] = matrix
        return padded.reshape(rows, -1, self.size)


@dataclass(frozen=True, slots=True)
class Storage:
    """How the weights of one precision are written; what is in no block is a float."""

    activations: np.dtype[Any]  # also of biases, layer norms, wpe and the KV cache
    matrices: BlockFormat | None = None
    vocabulary: BlockFormat | None = None  # wte and lm_head

    def format_of(self, name: str) -> BlockFormat | None:
        """Return the blocks that a weight lies in; None: in none."""
        if name in VOCABULARY_WEIGHTS:
            return self.vocabulary
        return self.matrices if name.endswith(_MATRICES) else None

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """Return the dtype of a weight that is in no block.

        wte and lm_head are float32 always: logits near 100, told to 11 bits, would be 0.06 apart.
        """
        return FLOAT32 if name in VOCABULARY_WEIGHTS else self.activations


# Measured by tests/bench/precision.py (results/precision.json, ONNX Runtime 1.31.1, AVX-512 VNNI).
# At accuracy level 4, in blocks of 32, and in 8 bits of 64, a row has the same bits alone and in a
# batch. In larger ones and at level 1 it has not, and level 1 decodes 10 to 40 times slower.
# Smaller ones are as exact within 0.5 % of perplexity, and slower, since their scales are read too.
# In int4 wte has 8 bits: the starter's perplexity rises by 1.9 %; with 4 bits it does by 3.4 %.
STORAGES: Final[Mapping[Precision, Storage]] = {
    Precision.FP32: Storage(FLOAT32),
    Precision.FP16: Storage(FLOAT16),
    Precision.INT8: Storage(FLOAT32, BlockFormat(8, 64), BlockFormat(8, 64)),
    Precision.INT4: Storage(FLOAT32, BlockFormat(4, 32), BlockFormat(8, 64)),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One array of the data file, and the names and shapes under which nodes take it."""

    array: NDArray[Any]
    shapes: Mapping[str, Shape]


def encode(storage: Storage, name: str, weight: Array) -> list[Part]:
    """Return a weight as `storage` writes it.

    Of a matrix in blocks there are `.blocks`, [N, K/size, bytes], and `.scales`, [N, K/size]; of
    wte and lm_head also `.rows`, the same bytes as [N, K/size·bytes], which Gather needs.
    """
    form = storage.format_of(name)
    if form is None:
        with np.errstate(over="ignore"):
            return [Part(weight.astype(storage.dtype_of(name), copy=False), {name: weight.shape})]
    in_rows = name in VOCABULARY_WEIGHTS
    blocks, scales = quantise(weight if in_rows else weight.T, form)
    shapes: dict[str, Shape] = {f"{name}.blocks": blocks.shape}
    if in_rows:
        shapes[f"{name}.rows"] = (len(blocks), blocks[0].size)
    return [Part(blocks, shapes), Part(scales, {f"{name}.scales": scales.shape})]


def quantise(matrix: Array, form: BlockFormat) -> tuple[NDArray[np.uint8], Array]:
    """Round a matrix [N, K] to blocks along K: uint8 [N, K/size, bytes], float32 [N, K/size].

    The number furthest from 0 becomes the lowest of the range, -2^(bits-1) times the scale, as in
    llama.cpp's Q4_0: that side of the range reaches one step further than the other. Layout: ONNX
    Runtime's MatMulNBits (ContribOperators.md): the first of two 4-bit numbers in the lower half.
    """
    blocks = form.split(matrix)  # [N, K/size, size]
    lowest, highest = blocks.min(axis=-1), blocks.max(axis=-1)
    furthest = np.where(-lowest > highest, lowest, highest)
    scales = furthest / np.float32(-form.zero_point)  # [N, K/size]
    steps = np.where(scales == 0, np.float32(1), scales)
    np.divide(blocks, steps[..., None], out=blocks)
    np.rint(blocks, out=blocks)
    blocks += form.zero_point
    numbers = np.clip(blocks, 0, 2 * form.zero_point - 1, out=blocks).astype(np.uint8)
    if form.bits == 8:
        return numbers, scales
    return numbers[..., 0::2] | numbers[..., 1::2] << np.uint8(4), scales
