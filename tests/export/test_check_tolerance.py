"""How much graph and oracle may differ: a share of the largest logit, or what rounding moves."""

import pathlib
import platform
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.check import NOISE_FACTOR, TOLERANCE, Expectation, round_entering
from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckError
from export.reference import Reference
from export.storage import FLOAT32, STORAGES, BlockFormat, Precision, Storage, quantise
from export.weights import expected_weights
from tests.array_weights import ArrayWeights
from tests.checkpoints import FloatArray


@pytest.fixture
def config(checkpoint: pathlib.Path) -> GPT2Config:
    """Return the configuration of the smallest checkpoint."""
    return read_config(checkpoint)


@pytest.fixture
def arrays(checkpoint: pathlib.Path, config: GPT2Config) -> dict[str, FloatArray]:
    """Return its weights, in arrays of the test's own."""
    with open_checkpoint(checkpoint) as weights:
        return {name: weights.read(name) for name in expected_weights(config)}


def shift_one(logits: FloatArray, by: float) -> FloatArray:
    """Return logits [V] with the fourth one moved."""
    moved = logits.copy()
    moved[3] += by
    return moved


@pytest.mark.parametrize("sign", [1, -1])
def test_the_tolerance_is_a_share_of_the_largest_logit(
    config: GPT2Config, arrays: dict[str, FloatArray], sign: int
) -> None:
    """A little less passes, a little more does not, up or down."""
    weights = ArrayWeights(arrays)
    expectation = Expectation(config, weights, [3, 1], [0, 1])
    [_, right] = Reference(config, weights, dtype=np.float32).logits([3, 1], [0, 1])
    allowed = sign * TOLERANCE * max(1.0, float(np.abs(right).max()))
    expectation.compare(right, 1, "here")
    expectation.compare(shift_one(right, 0.98 * allowed), 1, "here")
    with pytest.raises(CheckError, match="the exported graph is wrong at here: "):
        expectation.compare(shift_one(right, 1.02 * allowed), 1, "here")


def test_what_float32_itself_loses_is_allowed_for(
    config: GPT2Config, arrays: dict[str, FloatArray]
) -> None:
    """A hundred thousand added to every channel, which the first normalisation takes away again.

    Adding it in float32 rounds by 4e-3 what is of the size of 0.05.
    """
    arrays["wpe.weight"] += 100_000
    weights, asked = ArrayWeights(arrays), [0, 1]
    expectation = Expectation(config, weights, [3, 1], asked)
    right = Reference(config, weights, dtype=np.float32).logits([3, 1], asked)
    noise = float(np.abs(right - Reference(config, weights).logits([3, 1], asked)).max())
    allowed = NOISE_FACTOR * noise
    assert allowed > 2 * TOLERANCE * max(1.0, float(np.abs(right).max()))
    expectation.compare(shift_one(right[1], 0.98 * allowed), 1, "here")
    with pytest.raises(CheckError, match="the exported graph is wrong at here: "):
        expectation.compare(shift_one(right[1], 1.02 * allowed), 1, "here")


def test_fp16_rounds_to_eleven_bits() -> None:
    """2049 lies between two numbers of float16; the even one is taken, in the dtype it had."""
    x = np.array([[2049.0, 0.5]], np.float32)
    found = round_entering(x, STORAGES[Precision.FP16])
    assert found.tolist() == [[2048.0, 0.5]]
    assert found.dtype == np.float32


def test_each_block_of_a_row_has_a_step_of_its_own() -> None:
    """127 makes steps of 1, 254 in the next block steps of 2; zeros stay zeros."""
    x = np.zeros((1, 140), np.float32)
    x[0, :2], x[0, 64:66] = [127, 0.6], [254, 2.9]
    found = round_entering(x, STORAGES[Precision.INT8])
    assert found.shape == x.shape
    assert found[0, [0, 1, 64, 65]].tolist() == [127, 1, 254, 2]
    assert not found[0, 66:].any()


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="other processors round otherwise"
)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("width", [48, 64])
def test_the_operator_rounds_like_this(bits: int, width: int) -> None:
    """MatMulNBits gives what the rounded numbers times the stored ones give.

    To the last bits of float32; numbers that are not rounded give a hundred times as much.
    """
    form = BlockFormat(bits, 32)
    draw = np.random.Generator(np.random.Philox(bits))
    x = draw.normal(size=(5, width)).astype(np.float32)
    blocks, scales = quantise(draw.normal(size=(7, width)).astype(np.float32), form)
    numbers = blocks if bits == 8 else np.stack([blocks & 15, blocks >> 4], -1)
    floats = (numbers.reshape(7, -1, 32).astype(np.float64) - form.zero_point) * scales[..., None]
    matrix = floats.reshape(7, -1)[:, :width].T  # [K, N]
    found = _run_operator(x, blocks, scales, form)
    rounded = round_entering(x, storage=Storage(FLOAT32, form))
    assert float(np.abs(found - rounded @ matrix).max()) < 2e-5
    assert float(np.abs(found - x @ matrix).max()) > 2e-3


def _run_operator(
    x: npt.NDArray[Any], blocks: npt.NDArray[Any], scales: npt.NDArray[Any], form: BlockFormat
) -> npt.NDArray[Any]:
    node = helper.make_node(
        "MatMulNBits",
        ["x", "blocks", "scales"],
        ["y"],
        domain="com.microsoft",
        K=x.shape[1],
        N=len(blocks),
        bits=form.bits,
        block_size=form.size,
        accuracy_level=form.accuracy_level,
    )
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("x", "y")]
    weights = [numpy_helper.from_array(blocks, "blocks"), numpy_helper.from_array(scales, "scales")]
    graph = helper.make_graph([node], "product", values[:1], values[1:], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    result: npt.NDArray[Any] = session.run(None, {"x": x})[0]
    return result
