"""The check of the written weights: right folders pass, each kind of fault does not."""

import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from export.check_weights import check_weights
from export.checkpoint import expected_weights, open_checkpoint
from export.config import GPT2Config, read_config
from export.convert import write_model
from export.errors import CheckError
from export.precision import Precision
from export.storage import STORAGES
from tests.array_weights import ArrayWeights
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, ModelFolders

_BLOCKS = (Precision.INT8, Precision.INT4)
in_blocks = pytest.mark.parametrize("precision", _BLOCKS)
_MATRIX = "h.1.mlp.c_proj.weight"

Bytes = npt.NDArray[np.uint8]
CopyFolder = Callable[[Precision], pathlib.Path]


@pytest.fixture(scope="module")
def config(model_folders: ModelFolders) -> GPT2Config:
    """Return the configuration of a shape that fits no block."""
    return read_config(model_folders.checkpoint(ODD_SHAPE, n_inner=ODD_N_INNER))


@pytest.fixture(scope="module")
def weights(model_folders: ModelFolders, config: GPT2Config) -> ArrayWeights:
    """Return the checkpoint's weights."""
    with open_checkpoint(model_folders.checkpoint(ODD_SHAPE, n_inner=ODD_N_INNER)) as checkpoint:
        return ArrayWeights({name: checkpoint.read(name) for name in expected_weights(config)})


@pytest.fixture
def copy(model_folders: ModelFolders, tmp_path: pathlib.Path) -> CopyFolder:
    """Return a function that gives a model folder of the test's own."""

    def copy_folder(precision: Precision) -> pathlib.Path:
        folder = model_folders(ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER)
        return shutil.copytree(folder, tmp_path / "model")

    return copy_folder


def damage(folder: pathlib.Path, name: str, change: Callable[[Bytes], Bytes]) -> pathlib.Path:
    """Change the bytes of one initializer in the data file, and return the graph's path."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    [tensor] = [t for t in model.graph.initializer if t.name == name]
    place = {entry.key: entry.value for entry in tensor.external_data}
    data = np.fromfile(folder / "model.onnx.data", np.uint8)
    start, length = int(place["offset"]), int(place["length"])
    data[start : start + length] = change(data[start : start + length])
    data.tofile(folder / "model.onnx.data")
    return folder / "model.onnx"


@pytest.mark.parametrize("precision", Precision)
def test_what_was_written_right_passes(
    model_folders: ModelFolders, config: GPT2Config, weights: ArrayWeights, precision: Precision
) -> None:
    """Every precision rounds by no more than it is allowed."""
    folder = model_folders(ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER)
    check_weights(folder / "model.onnx", config, weights, precision)


@in_blocks
def test_the_number_that_lacks_a_step_passes_whatever_its_size(
    tmp_path: pathlib.Path, config: GPT2Config, weights: ArrayWeights, precision: Precision
) -> None:
    """Opposite numbers in a block: one is off by a whole step, and by how float32 rounds that."""
    arrays = {name: np.array(weights.read(name)) for name in expected_weights(config)}
    matrix = arrays[_MATRIX]  # [101, 48]
    largest = np.abs(matrix).max(axis=0)
    matrix[0], matrix[1] = largest * 3, largest * -3
    write_model(tmp_path, config, ArrayWeights(arrays), STORAGES[precision])
    check_weights(tmp_path / "model.onnx", config, ArrayWeights(arrays), precision)


def swap_halves_of_bytes(stored: Bytes) -> Bytes:
    swapped: Bytes = stored >> np.uint8(4) | stored << np.uint8(4)
    return swapped


def count_from_another_zero(stored: Bytes) -> Bytes:
    return stored + np.uint8(17)  # both halves of a byte


def reverse_the_blocks(stored: Bytes) -> Bytes:
    return stored[::-1]


@in_blocks
@pytest.mark.parametrize(
    "change", [swap_halves_of_bytes, count_from_another_zero, reverse_the_blocks]
)
def test_a_wrong_layout_is_caught(
    copy: CopyFolder,
    config: GPT2Config,
    weights: ArrayWeights,
    precision: Precision,
    change: Callable[[Bytes], Bytes],
) -> None:
    """Each change is a mistake that a packer of blocks can make."""
    model = damage(copy(precision), f"{_MATRIX}.blocks", change)
    with pytest.raises(CheckError, match=rf"^{_MATRIX} was written wrong: .* in {precision}$"):
        check_weights(model, config, weights, precision)


@in_blocks
@pytest.mark.parametrize("factor", [1.2, -1.0, 0.8])
def test_one_wrong_scale_is_caught(
    copy: CopyFolder,
    config: GPT2Config,
    weights: ArrayWeights,
    precision: Precision,
    factor: float,
) -> None:
    """The first scale of a matrix is off by a fifth, or has the other sign."""

    def change(stored: Bytes) -> Bytes:
        scales = stored.view("<f4").copy()
        scales[0] *= factor
        return scales.view(np.uint8)

    model = damage(copy(precision), f"{_MATRIX}.scales", change)
    with pytest.raises(CheckError, match=_MATRIX):
        check_weights(model, config, weights, precision)


@pytest.mark.parametrize(
    ("precision", "name"),
    [
        (Precision.FP32, "h.0.attn.c_attn.weight"),
        (Precision.FP16, "h.0.attn.c_attn.weight"),
        (Precision.FP16, "wte.weight"),
        (Precision.INT8, "wte.weight.blocks"),
        (Precision.INT8, "h.0.ln_1.bias"),
        (Precision.INT4, "wpe.weight"),
    ],
)
def test_one_wrong_byte_is_caught(
    copy: CopyFolder,
    config: GPT2Config,
    weights: ArrayWeights,
    precision: Precision,
    name: str,
) -> None:
    """The fourth byte of any part has another bit in its upper half."""

    def change(stored: Bytes) -> Bytes:
        changed = stored.copy()
        changed[3] ^= 0x40
        return changed

    with pytest.raises(CheckError, match="was written wrong"):
        check_weights(damage(copy(precision), name, change), config, weights, precision)


@pytest.mark.parametrize("name", ["bits", "block_size", "K"])
def test_a_wrong_attribute_of_an_operator_is_caught(
    copy: CopyFolder,
    config: GPT2Config,
    weights: ArrayWeights,
    name: str,
) -> None:
    """What the operator would read is what counts."""
    path = copy(Precision.INT8) / "model.onnx"
    model = onnx.load(path, load_external_data=False)
    [node] = [node for node in model.graph.node if f"{_MATRIX}.blocks" in node.input]
    [attribute] = [a for a in node.attribute if a.name == name]
    attribute.i //= 2
    onnx.save_model(model, path)
    with pytest.raises(CheckError, match=_MATRIX):
        check_weights(path, config, weights, Precision.INT8)
