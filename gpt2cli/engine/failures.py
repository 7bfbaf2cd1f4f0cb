"""Keeps what ONNX Runtime prints off the user's streams, and turns its exceptions into one line."""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Final

import onnxruntime

from export.errors import redirected
from gpt2cli.engine.devices import CUDA_PIP, Device
from gpt2cli.errors import DeviceError, DeviceFullError, Gpt2Error
from gpt2cli.machine import ONE_RUNTIME_PIP, RUNTIMES, find_versions

MAKING_ROOM: Final = ", making room for the KV cache"

# What preload_dlls() prints, and what a provider's loading logs (onnxruntime-gpu 1.31.1).
_NOT_PRELOADED: Final = re.compile(r"^Failed to load (\S+): (.+)$", re.MULTILINE)
_NOT_LOADED: Final = re.compile(r"Failed to load library .* with error: (?P<reason>.+)$", re.M)
_ABSENT: Final = "No such file"  # a library is missing, not broken

_CUDA_FAILURE: Final = re.compile(r"(?:CUDA|CUBLAS|CUDNN) failure \d+: [^;\n]+")
_CODES: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FULL: Final = re.compile(
    r"out of memory|Failed to allocate memory|ALLOC_FAILED|MemoryAllocation|bad_alloc", re.I
)
_OUTDATED: Final = ("failure 35:", "failure 36:")  # driver older than runtime, or than a call


@dataclass(slots=True)
class Captured:
    """What was printed; complete once the block is over."""

    text: str = ""


@contextmanager
def captured() -> Iterator[Captured]:
    """Catch what is written to file descriptors 1 and 2, by whatever language, in the block.

    It holds for the whole process: nothing else should be writing meanwhile.
    """
    found = Captured()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # buffered text is the user's, and goes out first
    with tempfile.TemporaryFile() as file:
        with (
            open(file.fileno(), "w", encoding="utf-8", closefd=False) as printed,
            redirected([1, 2], file.fileno()),
            # Not stderr too: it has no buffer to wait in, and a progress line's thread has it.
            redirect_stdout(printed),
        ):
            yield found
        file.seek(0)
        found.text = file.read().decode("utf-8", "replace")


def list_providers() -> tuple[str, ...]:
    """Return the providers that ONNX Runtime was built with; they may not work here."""
    return tuple(onnxruntime.get_available_providers())


def find_cuda_version() -> str | None:
    """Return the version of CUDA that this ONNX Runtime was built for."""
    return getattr(onnxruntime, "cuda_version", None) or None


def preload_libraries() -> dict[str, str]:
    """Load the CUDA libraries that pip installed; return which cannot be loaded, and why."""
    with captured() as printed:
        onnxruntime.preload_dlls()
    return dict(_NOT_PRELOADED.findall(printed.text))


@contextmanager
def failures_told(device: Device, doing: str = "") -> Iterator[None]:
    """Turn ONNX Runtime's exceptions, which share no public base, into the known failure.

    `doing` says what runs in the block; if memory is full, fewer rows may fit.
    """
    try:
        yield
    except (Gpt2Error, AssertionError):  # the second is a bug in this package
        raise
    except Exception as error:
        raise explain_failure(error, device, doing) from error


def explain_failure(
    error: Exception, device: Device, doing: str = "", *, by_rows: bool = True
) -> DeviceError:
    """Return the known failure for an exception of ONNX Runtime's; `doing` says what was running.

    `by_rows`: fewer rows would take less memory.
    """
    if is_out_of_memory(error):
        advice = "use a smaller model, or a lower {precision}"
        if by_rows:
            advice = "run fewer rows at once ({batch_size}, {samples}, {beams})"
        elsewhere = "" if device.kind == "cpu" else ", or use {device} cpu"
        full = DeviceFullError if by_rows else DeviceError
        told = f"its memory is full{doing}"
        return full(told, advice + elsewhere, option="device", value=device)
    reason, advice = find_reason(error), ""
    if any(code in reason for code in _OUTDATED):
        advice = f"update the driver: this ONNX Runtime needs CUDA {find_cuda_version()}"
    return refuse(device, f"{reason}{doing}", advice)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a device or the host ran out of memory."""
    return isinstance(error, MemoryError) or _FULL.search(str(error)) is not None


def find_reason(error: BaseException) -> str:
    """Return the message of an exception of ONNX Runtime's, without its files and lines."""
    text = str(error).strip()
    failure = _CUDA_FAILURE.search(text)
    if failure is not None:
        return failure[0].strip()
    lines = text.splitlines()
    return _CODES.sub("", lines[0]).rstrip(". ") if lines else type(error).__name__


def refuse_no_provider(device: Device) -> DeviceError:
    """Return the failure where this ONNX Runtime has no CUDA.

    If both of its packages are named, the one without CUDA has overwritten the other.
    """
    installed = " and ".join(f"{n} {version}" for n, version in find_versions(RUNTIMES).items())
    return refuse(device, f"this ONNX Runtime ({installed}) has no CUDA", ONE_RUNTIME_PIP)


def refuse_unloaded(device: Device, missing: Mapping[str, str], logged: str) -> DeviceError:
    """Return the failure where CUDA's provider could not be loaded.

    `missing`: libraries, and why they cannot be loaded; `logged`: what ONNX Runtime said.
    """
    if missing:
        names = ", ".join(re.split(r"[\\/]", path)[-1] for path in missing)
        reasons = list(missing.values())
        reason = next((each for each in reasons if _ABSENT not in each), reasons[0])
        return refuse(device, f"{names} cannot be loaded ({reason})", CUDA_PIP)
    found = _NOT_LOADED.search(logged)
    reason = found["reason"].strip() if found else "ONNX Runtime does not say why"
    # A function of the driver's own is missing: it is older than the provider.
    advice = "install a newer NVIDIA driver" if "undefined symbol: cu" in reason else CUDA_PIP
    return refuse(device, f"the CUDA provider cannot be loaded ({reason})", advice)


def refuse(device: Device, reason: str, advice: str) -> DeviceError:
    """Return the failure of a device, with advice: to use the CPU if it is another, or `advice`."""
    elsewhere = "`gpt2 doctor` may say more" if device.kind == "cpu" else "use {device} cpu"
    mended = f", or: {advice}" if advice else ""
    return DeviceError(reason, elsewhere + mended, option="device", value=device)
