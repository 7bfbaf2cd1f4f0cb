"""The engine on CUDA, where the provider is faked: what it is told, and which buffers live where.

The tests marked `gpu` are the same claims where a GPU is.
"""

import pathlib
import shutil
from typing import Any, Final

import numpy as np
import pytest

from export.storage import Precision
from gpt2cli.engine import Device, DeviceFullError, Engine, require_device, try_cuda
from gpt2cli.engine.profile import profile_step
from gpt2cli.errors import DeviceError, ModelError
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
    """Return the fake."""
    return fake_cuda.install(monkeypatch)


def use(engine: Engine) -> list[bytes]:
    """Prefill, fork, decode, move and decode; return all logits as bytes."""
    found = [engine.extend(0, [1, 2, 3, 4], [1, 3])]
    found.append(engine.extend(1, [5], [0]))
    engine.fork(0, 2)
    found.append(engine.decode([6, 7, 8]).copy())
    engine.free(0)
    found.append(engine.decode([9, 10]).copy())
    return [logits.tobytes() for logits in found]


def leave_one_graph(folder: ModelFolder, copy: pathlib.Path) -> ModelFolder:
    """Copy a folder without the CPU's own graph, so that the CPU runs what a device runs."""
    shutil.copytree(folder.path, copy)
    alone = read_model_folder(copy)
    (copy / "model_cpu.onnx").unlink(missing_ok=True)
    return alone


@floats
def test_a_device_computes_what_the_host_does(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision, tmp_path: pathlib.Path
) -> None:
    """Addresses, shapes and dtypes are right: the fake has the host's kernels, so equal bits."""
    folder = leave_one_graph(
        read_model_folder(model_folders(precision=precision)), tmp_path / "model"
    )
    assert use(Engine(folder, CUDA, max_slots=3)) == use(Engine(folder, CPU, max_slots=3))
    assert cuda.runs


@floats
def test_the_cache_lives_on_the_device_in_the_dtype_of_the_graph(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision
) -> None:
    """Past and present of every layer, all positions of the rows that run."""
    folder = read_model_folder(model_folders(precision=precision))
    engine = Engine(folder, CUDA, max_slots=3)
    engine.extend(0, [1, 2], [1])
    engine.extend(1, [3], [0])
    engine.decode([4, 5])
    shape = folder.shape
    axes = (2, shape.n_head, shape.n_positions, shape.head_dim)
    cached = {name: bound for name, bound in cuda.runs[-1].items() if name.count(".") == 2}
    assert len(cached) == 4 * shape.n_layer
    assert set(cached.values()) == {Bound("cuda:1", np.dtype(_DTYPES[precision]), axes)}


@floats
def test_only_the_asked_logits_come_back_in_float32(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision
) -> None:
    """Two of five positions are bound on the host; the ids are what is copied to the device."""
    folder = read_model_folder(model_folders(precision=precision))
    Engine(folder, CUDA).extend(0, [1, 2, 3, 4, 5], [0, 4])
    bound = cuda.runs[-1]
    vocab_size = folder.shape.vocab_size
    assert bound["logits"] == Bound("cpu:0", np.dtype(np.float32), (1, 2, vocab_size))
    assert {name: b.shape for name, b in bound.items() if b.device == "host"} == {
        "input_ids": (1, 5),
        "position_ids": (1, 5),
        "logit_positions": (1, 2),
    }


@floats
def test_the_cache_is_made_on_the_device(
    model_folders: ModelFolders, cuda: FakeCuda, precision: Precision
) -> None:
    """No zeros come from the host: only their shape does, [slots, H, M, D]."""
    folder = read_model_folder(model_folders(precision=precision))
    Engine(folder, CUDA, max_slots=3)
    assert len(cuda.runs) == 2 * folder.shape.n_layer
    for bound in cuda.runs:
        assert bound["axes"] == Bound("host", np.dtype(np.int64), (4,))
        assert bound["zeros"].device == "cuda:1"


def test_every_session_has_the_same_settings(small: ModelFolder, cuda: FakeCuda) -> None:
    """Model, zeros and copies: device, an arena that does not double, no TF32, nothing printed."""
    engine = Engine(small, CUDA, max_slots=2)
    engine.extend(0, [1], [0])
    engine.fork(0, 1)
    settings = {
        "device_id": "1",
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",
    }
    assert cuda.settings == [settings] * 3
    assert set(cuda.severities) == {4}


def test_every_eighth_prefill_gives_back_what_the_arena_does_not_use(
    small: ModelFolder, cuda: FakeCuda
) -> None:
    """No decode step does: it would take the same memory again."""
    engine = Engine(small, CUDA)
    cuda.run_options.clear()
    for _ in range(17):
        engine.extend(0, [1], [0])
        engine.decode([2])
        engine.rewind(0, 0)
    shrunk = [place for place, devices in enumerate(cuda.run_options) if devices]
    assert shrunk == [14, 30]
    assert cuda.run_options[14] == "gpu:1"


def test_a_runtime_that_cannot_shrink_its_arena_runs_all_the_same(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """It is asked once; the step is run again without."""
    cuda = fake_cuda.install(monkeypatch, refuses_run_options=True)
    engine, host = Engine(small, CUDA), Engine(leave_one_graph(small, tmp_path / "model"), CPU)
    for number in range(17):
        found, expected = engine.extend(0, [number], [0]), host.extend(0, [number], [0])
        assert np.array_equal(found, expected)
    assert sum(map(bool, cuda.run_options)) == 1


def test_the_hosts_memory_is_never_shrunk(small: ModelFolder) -> None:
    """Its arena serves all sessions of the process."""
    engine = Engine(small, CPU)
    for number in range(17):
        engine.extend(0, [number], [0])


def test_a_cache_that_does_not_fit_says_so(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, a kind of its own, and what asks for less."""
    fake_cuda.install(monkeypatch, full_above=1000)
    with pytest.raises(DeviceFullError) as caught:
        Engine(small, CUDA, max_slots=4)
    assert str(caught.value) == (
        "device cuda:1: its memory is full, making room for the KV cache; "
        "run fewer rows at once (batch_size, samples, beams), or use device cpu"
    )


def test_weights_that_do_not_fit_are_no_matter_of_rows(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is halved then: it would load them again and again."""
    cuda = fake_cuda.install(monkeypatch)

    def fail(*arguments: Any, **settings: Any) -> None:
        raise RuntimeError("CUDA failure 2: out of memory ; GPU=0")

    monkeypatch.setattr("gpt2cli.engine.session.onnxruntime.InferenceSession", fail)
    with pytest.raises(DeviceError, match=r"its memory is full, loading .*; take a smaller") as got:
        Engine(small, CUDA)
    assert type(got.value) is DeviceError
    assert cuda.runs == []


def test_a_step_that_does_not_fit_says_how_large_it_was(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of rows is what the user can lessen."""
    cuda = fake_cuda.install(monkeypatch)
    engine = Engine(small, CUDA, max_slots=2)
    cuda.full_above = 1
    with pytest.raises(DeviceFullError, match="its memory is full, at a step of 1 x 2 tokens;"):
        engine.extend(0, [1, 2], [1])


def test_a_full_memory_is_no_reason_never_to_shrink_the_arena_again(
    small: ModelFolder, cuda: FakeCuda
) -> None:
    """The step that was to shrink it fails; the eighth after it does."""
    engine = Engine(small, CUDA)
    for number in range(1, 17):
        cuda.full_above = 1 if number == 8 else None
        if number == 8:
            with pytest.raises(DeviceFullError):
                engine.extend(0, [1], [0])
        else:
            engine.extend(0, [1], [0])
    assert cuda.run_options[-1] == "gpu:1"


def test_a_copy_that_does_not_fit_says_so(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a foreign exception."""
    cuda = fake_cuda.install(monkeypatch)
    engine = Engine(small, CUDA, max_slots=2)
    engine.extend(0, [1, 2], [1])
    cuda.full_above = 1
    with pytest.raises(DeviceFullError, match="copying a row of the cache"):
        engine.fork(0, 1)


def test_damage_is_told_on_cuda_too(
    small: ModelFolder, cuda: FakeCuda, tmp_path: pathlib.Path
) -> None:
    """Not as a device that refused the graph."""
    copy = pathlib.Path(shutil.copytree(small.path, tmp_path / "model"))
    folder = read_model_folder(copy)
    folder.graph_file.write_bytes(b"\xff" * folder.graph_file.stat().st_size)
    with pytest.raises(ModelError, match=r"model\.onnx is damaged"):
        Engine(folder, CUDA)
    assert cuda.settings


def test_a_product_of_two_matrices_shows_that_cuda_runs(cuda: FakeCuda) -> None:
    """One session on that device, and no error."""
    try_cuda(CUDA)
    assert [settings["device_id"] for settings in cuda.settings] == ["1"]


def test_a_step_on_cuda_can_be_profiled(small: ModelFolder, cuda: FakeCuda) -> None:
    """The fake's nodes are the CPU's, all of which would be named."""
    nodes = profile_step(small, CUDA)
    assert {node.provider for node in nodes} == {"CPUExecutionProvider"}
    assert "TensorScatter" in {node.operator for node in nodes}
    assert cuda.settings


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
    model_folders: ModelFolders, precision: Precision
) -> None:
    """Prefill, fork, decode and a move; kernels add up in other orders."""
    device = find_gpu()
    folder = read_model_folder(model_folders(precision=precision))
    found = use(Engine(folder, device, max_slots=3))
    expected = use(Engine(folder, CPU, max_slots=3))
    allowed = 1e-3 if precision is Precision.FP32 else 0.1
    for one, other in zip(found, expected, strict=True):
        difference = np.frombuffer(one, np.float32) - np.frombuffer(other, np.float32)
        assert np.abs(difference).max() < allowed


@pytest.mark.gpu
def test_a_gpu_refuses_a_cache_that_does_not_fit_and_goes_on(small: ModelFolder) -> None:
    """As a known failure; the next engine has all the memory again."""
    device = find_gpu()
    with pytest.raises(DeviceFullError):
        Engine(small, device, max_slots=1 << 30)
    assert np.isfinite(Engine(small, device, max_slots=1).extend(0, [1], [0])).all()


@pytest.mark.gpu
def test_a_gpu_runs_all_but_the_nodes_of_shapes(small: ModelFolder) -> None:
    """What is on the CPU reads or makes no more than a shape."""
    device = find_gpu()
    nodes = profile_step(small, device)
    elsewhere = {node.operator for node in nodes if node.provider != device.provider}
    assert elsewhere <= {"Shape", "Concat", "Squeeze", "Unsqueeze", "Gather", "Range"}


@pytest.mark.gpu
def test_a_gpu_takes_many_prompts_without_an_error(small: ModelFolder) -> None:
    """Its arena is shrunk twice on the way."""
    engine = Engine(small, find_gpu(), max_slots=1)
    for length in range(1, 18):
        engine.extend(0, list(range(length)), [length - 1])
        engine.rewind(0, 0)
    assert engine._shrinks


@pytest.mark.gpu
def test_a_gpu_prints_nothing(small: ModelFolder, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither when it is tried, nor when it is opened, nor at a step, on either stream."""
    use(Engine(small, find_gpu(), max_slots=3))
    assert capfd.readouterr() == ("", "")
