"""Which provider runs each node: by ONNX Runtime's own profile of a step."""

import pathlib
import tempfile
from typing import Any

import pytest

from gpt2cli.engine import Device, profile_step
from gpt2cli.engine.profile import NodeRun, read_nodes
from gpt2cli.model_folder import ModelFolder


def event(name: str, provider: str, operator: str = "Add", cat: str = "Node") -> dict[str, Any]:
    """Return an event as onnxruntime 1.31.1 writes it."""
    return {"cat": cat, "name": name, "dur": 7, "args": {"provider": provider, "op_name": operator}}


def test_only_the_nodes_own_events_count() -> None:
    """Neither the session's, nor fences and the like before and after a node."""
    events = [
        event("model_run", "", cat="Session"),
        event("h.0_fence_before", "CUDAExecutionProvider"),
        event("h.0_kernel_time", "CUDAExecutionProvider"),
        event("capacity_kernel_time", "CPUExecutionProvider", "Squeeze"),
    ]
    assert read_nodes(events) == [
        NodeRun("h.0", "Add", "CUDAExecutionProvider"),
        NodeRun("capacity", "Squeeze", "CPUExecutionProvider"),
    ]


def test_a_step_of_a_model_is_profiled_node_by_node(
    small: ModelFolder,
    tmp_path: pathlib.Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the CPU all nodes run there; no file is left, and nothing is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    nodes = profile_step(small, Device("cpu"))
    assert {node.provider for node in nodes} == {"CPUExecutionProvider"}
    operators = [node.operator for node in nodes]
    assert operators.count("GroupQueryAttention") == small.shape.n_layer
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
