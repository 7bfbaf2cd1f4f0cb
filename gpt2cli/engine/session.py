"""Opens ONNX Runtime sessions: a model's, and those of small graphs, on one device."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import (
    Captured,
    captured,
    explain_failure,
    failures_told,
    find_reason,
    is_out_of_memory,
    list_providers,
    preload_libraries,
    refuse_no_provider,
    refuse_unloaded,
)
from gpt2cli.errors import Gpt2Error, ModelError
from gpt2cli.model_folder import ModelFolder

RUNTIME_VERSION: Final[str] = onnxruntime.__version__
_FATAL_ONLY: Final = 4  # errors are raised, so they need no log


def open_session(
    folder: ModelFolder,
    device: Device,
    threads: int,
    *,
    verifying: bool = False,
    alternating: bool = False,
) -> Any:
    """Return an InferenceSession for the folder's graph on `device`; on the CPU there are two.

    `verifying`: take the one that can run several single steps in one call. `alternating`: another
    session runs between the calls of this one.
    """
    graph = choose_graph(folder, device, verifying=verifying)
    try:
        return _open_on(str(graph), device, threads, alternating=alternating)
    except Gpt2Error:
        raise
    except Exception as error:  # ONNX Runtime's exceptions share no public base
        is_full = is_out_of_memory(error)
        damage = None if is_full else folder.find_damage()
        if is_full or (device.kind == "cuda" and damage is None):
            doing = f", loading {folder.path.name}"
            raise explain_failure(error, device, doing, by_rows=False) from error
        reason = damage or find_reason(error)
        raise ModelError(f"{folder.path} cannot be loaded: {reason}; export again") from error


def choose_graph(folder: ModelFolder, device: Device, *, verifying: bool) -> Path:
    """Return the file of the graph that runs on a device, or of the one that verifies."""
    if verifying:
        assert folder.verifying_graph_file is not None and device.kind == "cpu"
        return folder.verifying_graph_file
    return folder.cpu_graph_file if device.kind == "cpu" else folder.graph_file


def open_small(graph: str, device: Device) -> Any:
    """Return a session for a graph in ONNX's textual syntax; else ONNX Runtime's own exception."""
    from onnx import parser  # takes 0.3 s, and only devices need such graphs

    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}')
    return _open_on(model.SerializeToString(), device, threads=1)


def try_cuda(device: Device) -> None:
    """Run a tiny graph on a CUDA device; the error has the reason and a remedy."""
    if device.provider not in list_providers():
        raise refuse_no_provider(device)
    with failures_told(device), captured():
        square = open_small("square (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }", device)
        square.run(None, {"x": np.eye(2, dtype=np.float32)})


def cache_dtype(session: Any) -> np.dtype[Any]:
    """Return the dtype in which the graph takes and gives keys and values."""
    types = {value.name: value.type for value in session.get_inputs()}
    is_half = types["past_key_values.0.key"] == "tensor(float16)"
    return np.dtype(np.float16 if is_half else np.float32)


def count_further_steps(session: Any) -> int:
    """Return how many steps the graph can take after the first, in one call."""
    return sum(output.name.startswith("present.0.key.") for output in session.get_outputs())


def _open_on(model: str | bytes, device: Device, threads: int, *, alternating: bool = False) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads  # its own choice warns where cores are forbidden
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    if alternating:
        # Else its threads spin for a while after each call, on the cores that the other one needs:
        # of two on two cores, each takes twice as long.
        options.add_session_config_entry("session.force_spinning_stop", "1")
    missing = preload_libraries() if device.kind == "cuda" else {}
    # Not with session.disable_cpu_ep_fallback, which would tell a missing library at once: it also
    # refuses the few shape nodes that ONNX Runtime itself keeps on the CPU (its issue 17930).
    # Its fallback prints on stdout and loads everything a second time, on the CPU.
    with captured() if device.kind == "cuda" else nullcontext(Captured()) as printed:
        session = onnxruntime.InferenceSession(
            model, options, providers=[_provider(device)], enable_fallback=0
        )
    if device.provider not in session.get_providers():
        raise refuse_unloaded(device, missing, printed.text)
    return session


def _provider(device: Device) -> str | tuple[str, dict[str, str]]:
    if device.kind == "cpu":
        return device.provider
    settings = {
        "device_id": str(device.index),
        # The default doubles the arena. No gpu_mem_limit: what is too much is not known here.
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",  # it would keep 10 bits of each factor: fp32 is fp32
    }
    return device.provider, settings
