"""The engine on CUDA, where the provider is faked: what it is told, and which buffers live where.

The tests marked `gpu` are the same claims where a GPU is.
"""

import pathlib
import shutil
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from export.storage import Precision
from gpt2cli.engine.cache import DeviceCache
from gpt2cli.engine.devices import Device, require_device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.session import try_cuda
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError
from gpt2cli.model_folder import ModelFolder, read_model_folder
from tests.gpt2cli.engine import fake_cuda
from tests.gpt2cli.engine.fake_cuda import Bound, FakeCuda
from tests.model_folders import ModelFolders

CUDA: Final = Device("cuda", 1)
CPU: Final = Device("cpu")
_DTYPES: Final = {Precision.FP32: np.float32, Precision.FP16: np.float16}

floats = pytest.mark.parametrize("precision", _DTYPES)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return fake_cuda.install(monkeypatch)


def use(engine: Engine) -> list[bytes]:
    """Prefill, fork, decode, move, rewind and decode; return all logits as bytes."""
    found = [engine.extend(0, [1, 2, 3, 4], [1, 3])]
    found.append(engine.extend(1, [5], [0]))
    engine.fork(0, 2)
    found.append(engine.decode([6, 7, 8]).copy())
    engine.free(0)
    engine.rewind(0, 2)
    found.append(engine.decode([9, 10]).copy())
    return [logits.tobytes() for logits in found]


@floats
def test_a_device_computes_what_the_host_does(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision, tmp_path: pathlib.Path
) -> None:
    """Addresses, shapes and dtypes are right: the fake has the host's kernels, so equal bits."""
    copy = pathlib.Path(shutil.copytree(model_folders(precision=precision), tmp_path / "model"))
    folder = read_model_folder(copy)
    (copy / "model_cpu.onnx").unlink(missing_ok=True)  # so that the CPU runs the same graph
    assert use(Engine(folder, CUDA, max_slots=3)) == use(Engine(folder, CPU, max_slots=3))
    assert cuda.runs


@floats
def test_the_cache_lives_on_the_device_in_the_dtype_of_the_graph(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision
) -> None:
    """It is made there, whole; past and present of every layer are bound to the rows that run."""
    folder = read_model_folder(model_folders(precision=precision))
    engine = Engine(folder, CUDA, max_slots=3)
    shape = folder.shape
    assert len(cuda.runs) == 2 * shape.n_layer
    for bound in cuda.runs:
        assert bound["axes"] == Bound("host", np.dtype(np.int64), (4,))
        assert bound["values"].device == "cuda:1"
    engine.extend(0, [1, 2], [1])
    engine.extend(1, [3], [0])
    engine.decode([4, 5])
    axes = (2, shape.n_head, shape.n_positions, shape.head_dim)
    cached = {name: bound for name, bound in cuda.runs[-1].items() if name.count(".") == 2}
    assert len(cached) == 4 * shape.n_layer
    assert set(cached.values()) == {Bound("cuda:1", np.dtype(_DTYPES[precision]), axes)}
    # Float32 on the host, whatever the graph computes in.
    logits = Bound("cpu:0", np.dtype(np.float32), (2, 1, shape.vocab_size))
    assert cuda.runs[-1]["logits"] == logits


def test_every_session_has_the_same_settings(small: ModelFolder, cuda: FakeCuda) -> None:
    """Model, zeros, copies and trial: device, an arena that does not double, no TF32."""
    engine = Engine(small, CUDA, max_slots=2)
    engine.extend(0, [1], [0])
    engine.fork(0, 1)
    try_cuda(CUDA)
    settings = {"device_id": "1", "arena_extend_strategy": "kSameAsRequested", "use_tf32": "0"}
    assert cuda.settings == [settings] * 4


@pytest.mark.parametrize(
    ("work", "doing"),
    [
        (lambda engine: engine.extend(0, [1, 2], [1]), "at a step of 1 x 2 tokens"),
        (lambda engine: engine.fork(0, 1), "copying a row of the cache"),
        (lambda engine: DeviceCache(engine.shape, CUDA, rows=4), "making room for the KV cache"),
    ],
    ids=["step", "copy", "cache"],
)
def test_a_full_memory_is_told_with_what_takes_less(
    small: ModelFolder, cuda: FakeCuda, work: Callable[[Engine], object], doing: str
) -> None:
    """One line, a kind of its own, and what it was doing."""
    engine = Engine(small, CUDA, max_slots=2)
    engine.extend(0, [1, 2], [1])
    cuda.full_above = 1
    with pytest.raises(DeviceFullError) as caught:
        work(engine)
    assert str(caught.value) == (
        f"device cuda:1: its memory is full, {doing}; "
        "run fewer rows at once (batch_size, samples, beams), or use device cpu"
    )


def test_damage_is_told_on_cuda_too(
    small: ModelFolder, cuda: FakeCuda, tmp_path: pathlib.Path
) -> None:
    """Not as a device that refused the graph."""
    folder = read_model_folder(pathlib.Path(shutil.copytree(small.path, tmp_path / "model")))
    folder.graph_file.write_bytes(b"\xff" * folder.graph_file.stat().st_size)
    with pytest.raises(ModelError, match=r"model\.onnx is damaged"):
        Engine(folder, CUDA)


def find_gpu() -> Device:
    """Return the first CUDA device, if it runs."""
    try:
        device = require_device("cuda")
        try_cuda(device)
    except DeviceError as error:
        pytest.skip(str(error))
    return device


@pytest.mark.gpu
@floats
def test_a_gpu_computes_nearly_what_the_host_does(
    model_folders: ModelFolders, precision: Precision, capfd: pytest.CaptureFixture[str]
) -> None:
    """Kernels add up in other orders; and nothing is printed, on either stream."""
    device = find_gpu()
    folder = read_model_folder(model_folders(precision=precision))
    found = use(Engine(folder, device, max_slots=3))
    expected = use(Engine(folder, CPU, max_slots=3))
    allowed = 1e-3 if precision is Precision.FP32 else 0.1
    for one, other in zip(found, expected, strict=True):
        difference = np.frombuffer(one, np.float32) - np.frombuffer(other, np.float32)
        assert np.abs(difference).max() < allowed
    assert capfd.readouterr() == ("", "")


@pytest.mark.gpu
def test_a_gpu_refuses_a_cache_that_does_not_fit_and_goes_on(small: ModelFolder) -> None:
    """As a known failure; the next engine has all the memory again."""
    device = find_gpu()
    with pytest.raises(DeviceFullError):
        Engine(small, device, max_slots=1 << 30)
    assert np.isfinite(Engine(small, device, max_slots=1).extend(0, [1], [0])).all()
