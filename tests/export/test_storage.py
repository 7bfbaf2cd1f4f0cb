"""The packing: numbers by hand against the layout that MatMulNBits documents."""

import numpy as np
import pytest

from export.storage import (
    FLOAT16,
    FLOAT32,
    STORAGES,
    BlockFormat,
    Precision,
    Storage,
    encode,
    quantise,
)


def test_numbers_are_steps_from_the_middle() -> None:
    """Largest 64 upwards: one step is -64/128, so 64 is stored as 0, 0 as 128, -63 as 254.

    Of four bits two lie in a byte, the first one below: -8, 7, 0 and 1 are 0, 15, 8 and 9.
    """
    row = np.zeros((1, 16), np.float32)
    row[0, :4] = [64, 0, -63, 0.5]
    blocks, scales = quantise(row, BlockFormat(8, 16))
    assert (blocks.shape, blocks.dtype.name, scales.tolist()) == ((1, 1, 16), "uint8", [[-0.5]])
    assert blocks[0, 0, :4].tolist() == [0, 128, 254, 127]
    row[0, :4] = [-8, 7, 0, 1]
    blocks, scales = quantise(row, BlockFormat(4, 16))
    assert (blocks.shape, blocks.dtype.name, scales.tolist()) == ((1, 1, 8), "uint8", [[1.0]])
    assert blocks[0, 0, :3].tolist() == [0xF0, 0x98, 0x88]


@pytest.mark.parametrize(("bits", "largest"), [(8, 255), (4, 15)])
def test_what_lies_beyond_the_range_is_its_end(bits: int, largest: int) -> None:
    """The number opposite to the furthest, just as far away, lacks one step."""
    row = np.full((1, 16), 3, np.float32)
    row[0, 0] = -3
    blocks, _ = quantise(row, BlockFormat(bits, 16))
    first = int(blocks[0, 0, 0]) & largest
    assert {first, int(blocks[0, 0, -1]) & largest} == {0, largest}


def test_each_block_of_each_row_has_a_scale_of_its_own() -> None:
    """Two rows of 20 numbers in blocks of 16: the second block is padded with zeros."""
    rows = np.array([[1.0], [2.0]], np.float32).repeat(20, axis=1)
    rows[:, 16:] *= 10
    blocks, scales = quantise(rows, BlockFormat(8, 16))
    assert scales.tolist() == [[-1 / 128, -10 / 128], [-2 / 128, -20 / 128]]
    assert blocks.shape == (2, 2, 16)
    assert (blocks[:, 1, 4:] == 128).all()


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("number", [0.0, 1e-45, 3e38])
def test_numbers_at_the_ends_of_float32_stay_finite(bits: int, number: float) -> None:
    """No scale is NaN or infinite, and no number wraps around."""
    rows = np.array([[number, -number / 2] * 8], np.float32)
    blocks, scales = quantise(rows, BlockFormat(bits, 16))
    assert np.isfinite(scales).all()
    numbers = blocks[0, 0] if bits == 8 else blocks[0, 0] & 15
    first = (float(numbers[0]) - 2 ** (bits - 1)) * float(scales[0, 0])
    assert first == pytest.approx(number, rel=1e-6, abs=2e-38)


def test_a_matrix_is_stored_by_its_outputs() -> None:
    """Conv1D's [in, out] is turned, wte's [V, E] is not; its rows have a name for Gather too."""
    storage = Storage(FLOAT32, BlockFormat(4, 16), BlockFormat(8, 16))
    weight = np.arange(48 * 3, dtype=np.float32).reshape(48, 3)
    shapes = {
        name: [part.shapes for part in encode(storage, name, array)]
        for name, array in (("h.0.mlp.c_fc.weight", weight), ("wte.weight", weight.T))
    }
    assert shapes == {
        "h.0.mlp.c_fc.weight": [
            {"h.0.mlp.c_fc.weight.blocks": (3, 3, 8)},
            {"h.0.mlp.c_fc.weight.scales": (3, 3)},
        ],
        "wte.weight": [
            {"wte.weight.blocks": (3, 3, 16), "wte.weight.rows": (3, 48)},
            {"wte.weight.scales": (3, 3)},
        ],
    }


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])
@pytest.mark.parametrize(
    "name", ["wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.bias", "ln_f.bias"]
)
def test_what_is_no_matrix_stays_float32(precision: Precision, name: str) -> None:
    """Positions, norms and biases are few, and added in full."""
    [part] = encode(STORAGES[precision], name, np.ones(3, np.float32))
    assert part.array.dtype == FLOAT32
    assert part.shapes == {name: (3,)}


def test_fp16_halves_all_but_the_vocabulary() -> None:
    """Wte and lm_head give float32 logits."""
    storage = STORAGES[Precision.FP16]
    dtypes = {
        name: encode(storage, name, np.ones((2, 2), np.float32))[0].array.dtype
        for name in ("wte.weight", "lm_head.weight", "wpe.weight", "h.1.attn.c_proj.weight")
    }
    assert list(dtypes.values()) == [FLOAT32, FLOAT32, FLOAT16, FLOAT16]
