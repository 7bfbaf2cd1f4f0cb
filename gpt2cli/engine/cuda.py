"""Whether CUDA runs here: one step of a tiny graph, and where that fails the reason in words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

import numpy as np
import onnxruntime

from gpt2cli.engine.captured import captured
from gpt2cli.engine.devices import CUDA_PIP, Device
from gpt2cli.engine.runtime import ONE_RUNTIME_PIP
from gpt2cli.engine.tiny_graphs import PRODUCT, ZEROS
from gpt2cli.errors import DeviceError, DeviceFullError

CUDA_PROVIDER: Final = "CUDAExecutionProvider"
RUNTIME_PACKAGES: Final = ("onnxruntime", "onnxruntime-gpu")

# What preload_dlls() prints, and what a provider's loading logs (onnxruntime-gpu 1.31.1).
_NOT_PRELOADED: Final = re.compile(r"^Failed to load (?P<name>\S+): (?P<reason>.+)$", re.MULTILINE)
_NOT_LOADED: Final = re.compile(r"Failed to load library .* with error: (?P<reason>.+)$", re.M)
_CUDA_FAILURE: Final = re.compile(r"(?:CUDA|CUBLAS|CUDNN) failure \d+: [^;\n]+")
_CODES: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FULL: Final = re.compile(
    r"out of memory|Failed to allocate memory|ALLOC_FAILED|MemoryAllocation|bad_alloc", re.I
)
_ABSENT: Final = "No such file"  # a library is not there, as against broken
_OUTDATED: Final = ("failure 35:", "failure 36:")  # driver older than runtime, or than a call
_SQUARE: Final = np.array([[1, 2], [3, 4]], np.float32)


@dataclass(frozen=True, slots=True)
class MissingLibrary:
    """A library that CUDA's provider needs and that cannot be loaded."""

    name: str
    reason: str


def find_runtimes() -> dict[str, str]:
    """Return the installed packages that are ONNX Runtime, with their versions."""
    found = {}
    for name in RUNTIME_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def list_providers() -> tuple[str, ...]:
    """Return what ONNX Runtime was built with, which may not run here."""
    return tuple(onnxruntime.get_available_providers())


def find_cuda_version() -> str | None:
    """Return the version of CUDA that this ONNX Runtime was built for."""
    return getattr(onnxruntime, "cuda_version", None) or None


def preload_libraries() -> list[MissingLibrary]:
    """Load the CUDA libraries that pip installed; return those that are found nowhere."""
    with captured() as printed:
        onnxruntime.preload_dlls()
    return [MissingLibrary(m["name"], m["reason"]) for m in _NOT_PRELOADED.finditer(printed.text)]


def try_cuda(device: Device) -> None:
    """Multiply two matrices on a CUDA device.

    Raises:
        DeviceError: if it cannot be done, with the reason and what mends it.
    """
    if CUDA_PROVIDER not in list_providers():
        raise _refuse(device, *_explain_no_provider())
    missing = preload_libraries()
    failure: Exception | None = None
    providers: Sequence[str] = ()
    with captured() as printed:
        try:
            session = open_on(PRODUCT, device)
            providers = session.get_providers()
            [product] = session.run(None, {"x": _SQUARE})
        except Exception as error:  # ONNX Runtime's exceptions share no public base
            failure = error
    if failure is not None:
        raise explain_failure(failure, device) from failure
    if CUDA_PROVIDER not in providers:  # it fell back to the CPU
        raise explain_fallback(missing, printed.text, device)
    if not np.array_equal(product, _SQUARE @ _SQUARE):
        raise _refuse(device, "it multiplies wrongly", "")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """OrtValues in a device's memory, and the session whose arena they lie in."""

    values: Sequence[Any]
    session: Any  # kept for as long as they are


def allocate_zeros(
    axes: Sequence[int], element: np.dtype[Any], device: Device, *, count: int
) -> DeviceMemory:
    """Return so many OrtValues of zeros, of that shape, in a device's memory.

    Outputs of a session, since its arena takes what is asked; `ortvalue_from_shape_and_type` has an
    arena of its own that doubles (onnxruntime 1.31.1, GetCudaAllocator).

    Raises:
        DeviceFullError: if it does not fit.
        DeviceError: if the device cannot do it.
    """
    shape = np.array(axes, np.int64)
    try:
        session = open_on(ZEROS[element], device)
        values: list[Any] = []
        for _ in range(count):
            binding = session.io_binding()
            binding.bind_cpu_input("axes", shape)
            binding.bind_output("zeros", device.kind, device.index)
            session.run_with_iobinding(binding)
            values += binding.get_outputs()
    except Exception as error:  # ONNX Runtime's exceptions share no public base
        raise explain_failure(error, device, ", making room for the KV cache") from error
    return DeviceMemory(values, session)


def open_on(model: str | bytes, device: Device, options: Any = None) -> Any:
    """Return a session on a device; where it cannot be had there, ONNX Runtime's own exception.

    A provider that cannot be loaded is no exception but a session on the CPU.
    """
    if options is None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the default's pool warns where cores are forbidden
        options.log_severity_level = 4  # what is an error is raised
    # Its fallback prints on stdout and loads everything a second time, on the CPU.
    return onnxruntime.InferenceSession(
        model, options, providers=[_provider(device)], enable_fallback=0
    )


def explain_failure(
    error: Exception, device: Device, doing: str = "", *, by_rows: bool = True
) -> DeviceError:
    """Return the known failure for an exception of ONNX Runtime's; `doing` is what it was at.

    `by_rows`: fewer rows would take less memory.
    """
    reason = shorten(error)
    if is_out_of_memory(error):
        reason = f"its memory is full{doing}"
        if not by_rows:
            advice = "take a smaller model, or a lower --precision"
            return DeviceError(f"--device {device}: {reason}; {advice}, or use --device cpu")
        advice = "run fewer rows at once (--batch-size, --samples, --beams)"
        return DeviceFullError(f"--device {device}: {reason}; {advice}, or use --device cpu")
    if any(code in reason for code in _OUTDATED):
        advice = f"update the driver: this ONNX Runtime needs CUDA {find_cuda_version()}"
        return _refuse(device, f"{reason}{doing}", advice)
    return _refuse(device, f"{reason}{doing}", "")


def explain_fallback(
    missing: Sequence[MissingLibrary], printed: str, device: Device
) -> DeviceError:
    """Return the known failure for a session that ONNX Runtime opened on the CPU instead."""
    return _refuse(device, *_explain_unloaded(missing, printed))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a device's memory, or the host's, did not suffice."""
    return isinstance(error, MemoryError) or _FULL.search(str(error)) is not None


def shorten(error: BaseException) -> str:
    """Return what matters of an exception of ONNX Runtime's, without its files and lines."""
    text = str(error).strip()
    failure = _CUDA_FAILURE.search(text)
    if failure is not None:
        return failure[0].strip()
    lines = text.splitlines()
    return _CODES.sub("", lines[0]).rstrip(". ") if lines else type(error).__name__


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


def _explain_no_provider() -> tuple[str, str]:
    runtimes = find_runtimes()
    if len(runtimes) > 1:
        both = " and ".join(f"{name} {version}" for name, version in runtimes.items())
        return f"{both} are both installed, which breaks CUDA", ONE_RUNTIME_PIP
    name = next(iter(runtimes), "onnxruntime")
    return f"this build of ONNX Runtime ({name}) has no CUDA", ONE_RUNTIME_PIP


def _explain_unloaded(missing: Sequence[MissingLibrary], logged: str) -> tuple[str, str]:
    """Return reason and advice where the provider's library could not be loaded."""
    if missing:
        names = [library.name.replace("\\", "/").rpartition("/")[2] for library in missing]
        told = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        broken = (library for library in missing if _ABSENT not in library.reason)
        return f"{told} cannot be loaded ({next(broken, missing[0]).reason})", CUDA_PIP
    found = _NOT_LOADED.search(logged)
    if found is None:
        return "ONNX Runtime ran it on the CPU without saying why", CUDA_PIP
    reason = found["reason"].strip()
    if "libcuda.so" in reason or "undefined symbol: cu" in reason:
        return f"the NVIDIA driver is none, or too old ({reason})", "install an NVIDIA driver"
    return f"the CUDA provider cannot be loaded ({reason})", CUDA_PIP


def _refuse(device: Device, reason: str, advice: str) -> DeviceError:
    mended = f", or: {advice}" if advice else ""
    return DeviceError(f"--device {device}: {reason}; use --device cpu{mended}")
