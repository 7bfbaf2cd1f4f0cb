"""Finds which execution provider runs each node of a graph, by the profile of one step."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from export.small_files import LARGE, read_json
from gpt2cli.engine.cache import allocate_zeros
from gpt2cli.engine.captured import captured
from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import failures_told
from gpt2cli.engine.session import cache_dtype, find_graph, make_options, open_on
from gpt2cli.model_folder import ModelFolder

_KERNEL: Final = "_kernel_time"  # how ONNX Runtime ends the name of a node's own event
_CACHE: Final = "past_key_values."


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One node of a step: its name in the graph that ran, operator and provider."""

    name: str
    operator: str
    provider: str


def profile_step(folder: ModelFolder, device: Device) -> list[NodeRun]:
    """Return every node of one decode step, in the order that they ran.

    It opens a session of its own, in which the cache has a capacity of `n_positions`.

    Raises:
        DeviceError: if the device cannot run it.
    """
    doing = ", profiling a step"
    with failures_told(device, doing), tempfile.TemporaryDirectory() as place, captured():
        path = _run_profiled(folder, device, Path(place) / "step")
        events = read_json(path, most_bytes=LARGE)
    return read_nodes(events)


def read_nodes(events: Sequence[dict[str, Any]]) -> list[NodeRun]:
    """Return the nodes of a profile, as onnxruntime 1.31.1 writes it."""
    return [
        NodeRun(
            event["name"].removesuffix(_KERNEL),
            event["args"].get("op_name", "?"),
            event["args"].get("provider", "?"),
        )
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL)
    ]


def _run_profiled(folder: ModelFolder, device: Device, prefix: Path) -> Path:
    """Run a step of one token in one row; return the profile's path."""
    options = make_options()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    session = open_on(find_graph(folder, device), device, options)
    shape = folder.shape
    axes = (1, shape.n_head, shape.n_positions, shape.head_dim)
    names = [value.name for value in session.get_inputs()]
    caches = [name for name in names if name.startswith(_CACHE)]
    memory = allocate_zeros(axes, cache_dtype(session), device, count=len(caches))
    binding = session.io_binding()
    for name, value in zip(caches, memory.values, strict=True):
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(name.replace(_CACHE, "present."), value)
    for name in names:
        if name not in caches:
            binding.bind_cpu_input(name, np.zeros((1, 1), np.int64))
    binding.bind_output("logits", "cpu")
    session.run_with_iobinding(binding)
    return Path(session.end_profiling())
