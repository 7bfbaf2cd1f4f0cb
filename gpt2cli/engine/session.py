"""Makes the ONNX Runtime sessions of a model and of the copies in its cache."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnxruntime

from gpt2cli.engine.captured import captured
from gpt2cli.engine.cuda import (
    CUDA_PROVIDER,
    explain_failure,
    explain_fallback,
    is_out_of_memory,
    open_on,
    preload_libraries,
    shorten,
)
from gpt2cli.engine.devices import Device
from gpt2cli.errors import Gpt2Error, ModelError
from gpt2cli.model_folder import ModelFolder

RUNTIME_VERSION: Final[str] = onnxruntime.__version__
_FATAL_ONLY: Final = 4  # what is an error is raised
_CACHE_INPUT: Final = "past_key_values.0.key"
_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
}


def open_session(folder: ModelFolder, device: Device, threads: int) -> Any:
    """Return an InferenceSession for the folder's graph on `device`.

    Raises:
        ModelError: if the graph cannot be loaded.
        DeviceError: if `device` cannot run it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    graph = find_graph(folder, device)
    try:
        return (
            open_on(graph, device, options)
            if device.kind == "cpu"
            else _open_cuda(graph, device, options)
        )
    except Gpt2Error:
        raise
    except Exception as error:  # ONNX Runtime's exceptions share no public base
        damage = None if is_out_of_memory(error) else folder.find_damage()
        if device.kind == "cuda" and damage is None:
            doing = f", loading {folder.path.name}"
            raise explain_failure(error, device, doing, by_rows=False) from error
        reason = damage or shorten(error)
        raise ModelError(f"{folder.path} cannot be loaded: {reason}; export again") from error


def find_graph(folder: ModelFolder, device: Device) -> str:
    """Return the path of the graph that a device runs."""
    return str(folder.cpu_graph_file if device.kind == "cpu" else folder.graph_file)


def cache_dtype(session: Any) -> np.dtype[Any]:
    """Return the dtype in which the graph takes and gives keys and values."""
    [name] = [value.type for value in session.get_inputs() if value.name == _CACHE_INPUT]
    return _DTYPES[name]


def open_copy_session(model: bytes, device: Device) -> Any:
    """Return a session for a small graph made in memory, on the same provider as the model.

    Raises:
        DeviceError: if `device` cannot run it.
    """
    if device.kind == "cpu":
        return open_on(model, device)
    try:
        return _open_cuda(model, device, None)
    except Gpt2Error:
        raise
    except Exception as error:  # as above
        raise explain_failure(error, device, ", opening a graph that copies") from error


def _open_cuda(model: str | bytes, device: Device, options: Any) -> Any:
    """Return a session that runs on CUDA, with nothing printed; else ONNX Runtime's exception."""
    missing = preload_libraries()
    # Not with session.disable_cpu_ep_fallback, which would tell a missing library at once: it also
    # refuses the few shape nodes that ONNX Runtime itself keeps on the CPU (its issue 17930).
    with captured() as printed:
        session = open_on(model, device, options)
    if CUDA_PROVIDER not in session.get_providers():  # it fell back to the CPU
        raise explain_fallback(missing, printed.text, device)
    return session
