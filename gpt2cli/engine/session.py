"""Makes the ONNX Runtime session, and keeps what it prints off stdout."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

import numpy as np
import onnxruntime

from gpt2cli.engine.devices import CUDA_PIP, Device
from gpt2cli.errors import DeviceError, ModelError
from gpt2cli.model_folder import ModelFolder

RUNTIME_VERSION: Final[str] = onnxruntime.__version__
_ERRORS_ONLY: Final = 3
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
    options.log_severity_level = _ERRORS_ONLY
    if device.kind == "cuda":
        return _open_cuda(folder, device, options)
    try:
        return onnxruntime.InferenceSession(
            str(folder.graph_file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's exceptions share no public base
        damage = folder.find_damage() or _first_line(error)
        raise ModelError(f"{folder.path} cannot be loaded: {damage}; export again") from error


def cache_dtype(session: Any) -> np.dtype[Any]:
    """Return the dtype in which the graph takes and gives keys and values."""
    [name] = [value.type for value in session.get_inputs() if value.name == _CACHE_INPUT]
    return _DTYPES[name]


def open_copy_session(model: bytes, device: Device) -> Any:
    """Return a session for a small graph made in memory, on the same provider as the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a default pool would warn where not all cores are allowed
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(model, options, providers=[_provider(device)])


def _open_cuda(folder: ModelFolder, device: Device, options: Any) -> Any:
    # Not with session.disable_cpu_ep_fallback, which would tell a missing library at once: it also
    # refuses the few shape nodes that ONNX Runtime itself keeps on the CPU (its issue 17930).
    with _stdout_on_stderr():
        try:
            onnxruntime.preload_dlls()
            session = onnxruntime.InferenceSession(
                str(folder.graph_file), options, providers=[_provider(device)]
            )
        except Exception as error:  # as above
            raise DeviceError(
                f"--device {device}: ONNX Runtime cannot run {folder.path.name} there: "
                f"{_first_line(error)}; use --device cpu, or: {CUDA_PIP}"
            ) from error
    if "CUDAExecutionProvider" not in session.get_providers():  # it fell back to the CPU
        raise DeviceError(
            f"--device {device}: ONNX Runtime or its CUDA libraries cannot be loaded; "
            f"use --device cpu, or: {CUDA_PIP}"
        )
    return session


def _provider(device: Device) -> str | tuple[str, dict[str, str]]:
    if device.kind == "cpu":
        return "CPUExecutionProvider"
    settings = {
        "device_id": str(device.index),
        # The default doubles the arena, which prompts of many lengths exhaust.
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",
    }
    return "CUDAExecutionProvider", settings


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    """Send to stderr what ONNX Runtime writes to file descriptor 1 and its Python layer prints."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):  # what is printed would wait in a buffer till later
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
