"""Opening the graph: what goes wrong is told in one line, and nothing else is printed."""

import hashlib
import json
import os
import pathlib
import shutil

import pytest

from gpt2cli.engine.cache import DeviceCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.session import open_session
from gpt2cli.errors import DeviceError, ModelError
from gpt2cli.model_folder import ModelFolder, read_model_folder

CPU = Device("cpu")


@pytest.fixture
def folder(small: ModelFolder, tmp_path: pathlib.Path) -> ModelFolder:
    """Return a model folder that a test may damage."""
    return read_model_folder(pathlib.Path(shutil.copytree(small.path, tmp_path / "model")))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no cores")
def test_a_process_bound_to_one_core_prints_nothing(
    small: ModelFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    """`taskset -c 0`: as many threads as cores allowed, through prefill, copies and decode."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        engine = Engine(small, CPU, cache=DeviceCache(small.shape, CPU, rows=2))
        engine.extend(0, [1, 2], [1])
        engine.fork(0, 1)
        engine.decode([3, 4])
    finally:
        os.sched_setaffinity(0, allowed)
    assert engine.threads == 1
    assert capfd.readouterr() == ("", "")


def test_damaged_weights_are_told_by_hash(folder: ModelFolder) -> None:
    """A graph that cannot be loaded is compared with the recorded hashes."""
    size = folder.cpu_graph_file.stat().st_size
    folder.cpu_graph_file.write_bytes(b"\xff" * size)
    with pytest.raises(ModelError) as caught:
        open_session(folder, CPU, 1)
    assert str(caught.value) == (
        f"{folder.path} cannot be loaded: model_cpu.onnx is damaged: "
        "its sha256 is not the recorded one; export again"
    )


def test_a_graph_that_onnxruntime_refuses_is_told_by_its_first_line(folder: ModelFolder) -> None:
    """Where all hashes agree, the reason is ONNX Runtime's, on one line."""
    content = b"no graph"
    folder.cpu_graph_file.write_bytes(content)
    path = folder.path / "export.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"]["model_cpu.onnx"]["sha256"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"cannot be loaded: .+; export again") as caught:
        open_session(folder, CPU, 1)
    assert "\n" not in str(caught.value)


def test_a_memory_too_small_for_the_weights_is_no_damage(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To export again would not help: less would."""

    def fail(*arguments: object, **settings: object) -> None:
        raise RuntimeError("std::bad_alloc")

    monkeypatch.setattr("onnxruntime.InferenceSession", fail)
    with pytest.raises(DeviceError) as caught:
        open_session(small, CPU, 1)
    assert str(caught.value) == (
        f"device cpu: its memory is full, loading {small.path.name}; "
        "use a smaller model, or a lower precision"
    )
