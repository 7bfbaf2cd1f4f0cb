"""What ONNX Runtime's exceptions mean: known failures in one line, and whether memory is full."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gpt2cli.engine.cuda_libraries import find_cuda_version
from gpt2cli.engine.devices import Device
from gpt2cli.errors import DeviceError, DeviceFullError, Gpt2Error

MAKING_ROOM: Final = ", making room for the KV cache"

_CUDA_FAILURE: Final = re.compile(r"(?:CUDA|CUBLAS|CUDNN) failure \d+: [^;\n]+")
_CODES: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FULL: Final = re.compile(
    r"out of memory|Failed to allocate memory|ALLOC_FAILED|MemoryAllocation|bad_alloc", re.I
)
_OUTDATED: Final = ("failure 35:", "failure 36:")  # driver older than runtime, or than a call


@contextmanager
def failures_told(device: Device, doing: str = "", *, by_rows: bool = True) -> Iterator[None]:
    """Turn ONNX Runtime's exceptions, which share no public base, into the known failure.

    `doing` is what it is at; `by_rows`: fewer rows would take less memory.
    """
    try:
        yield
    except (Gpt2Error, AssertionError):  # the second: a fault of ours
        raise
    except Exception as error:
        raise explain_failure(error, device, doing, by_rows=by_rows) from error


def explain_failure(
    error: Exception, device: Device, doing: str = "", *, by_rows: bool = True
) -> DeviceError:
    """Return the known failure for an exception of ONNX Runtime's; `doing` is what it was at.

    `by_rows`: fewer rows would take less memory.
    """
    reason = find_reason(error)
    if is_out_of_memory(error):
        advice = "take a smaller model, or a lower {precision}"
        if by_rows:
            advice = "run fewer rows at once ({batch_size}, {samples}, {beams})"
        elsewhere = "" if device.kind == "cpu" else ", or use {device} cpu"
        full = DeviceFullError if by_rows else DeviceError
        told = f"its memory is full{doing}"
        return full(told, advice + elsewhere, option="device", value=device)
    advice = ""
    if any(code in reason for code in _OUTDATED):
        advice = f"update the driver: this ONNX Runtime needs CUDA {find_cuda_version()}"
    return refuse(device, f"{reason}{doing}", advice)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a device's memory, or the host's, did not suffice."""
    return isinstance(error, MemoryError) or _FULL.search(str(error)) is not None


def find_reason(error: BaseException) -> str:
    """Return what matters of an exception of ONNX Runtime's, without its files and lines."""
    text = str(error).strip()
    failure = _CUDA_FAILURE.search(text)
    if failure is not None:
        return failure[0].strip()
    lines = text.splitlines()
    return _CODES.sub("", lines[0]).rstrip(". ") if lines else type(error).__name__


def refuse(device: Device, reason: str, advice: str) -> DeviceError:
    """Return the failure of a device, with what mends it: the CPU if it is another, or `advice`."""
    elsewhere = "`gpt2 doctor` may tell more" if device.kind == "cpu" else "use {device} cpu"
    mended = f", or: {advice}" if advice else ""
    return DeviceError(reason, elsewhere + mended, option="device", value=device)
