"""The CUDA libraries and the packages that are ONNX Runtime: which there are, which are missing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnxruntime

from gpt2cli.engine.captured import captured
from gpt2cli.engine.devices import CUDA_PIP
from gpt2cli.engine.runtime import ONE_RUNTIME_PIP
from gpt2cli.machine import find_versions

_RUNTIMES: Final = ("onnxruntime", "onnxruntime-gpu")

# What preload_dlls() prints, and what a provider's loading logs (onnxruntime-gpu 1.31.1).
_NOT_PRELOADED: Final = re.compile(r"^Failed to load (?P<name>\S+): (?P<reason>.+)$", re.MULTILINE)
_NOT_LOADED: Final = re.compile(r"Failed to load library .* with error: (?P<reason>.+)$", re.M)
_ABSENT: Final = "No such file"  # a library is not there, as against broken


@dataclass(frozen=True, slots=True)
class MissingLibrary:
    """A library that CUDA's provider needs and that cannot be loaded."""

    name: str
    reason: str


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


def explain_no_provider() -> tuple[str, str]:
    """Return reason and advice where this ONNX Runtime has no CUDA."""
    runtimes = find_versions(_RUNTIMES)
    if len(runtimes) > 1:
        both = " and ".join(f"{name} {version}" for name, version in runtimes.items())
        return f"{both} are both installed, which breaks CUDA", ONE_RUNTIME_PIP
    name = next(iter(runtimes), "onnxruntime")
    return f"this build of ONNX Runtime ({name}) has no CUDA", ONE_RUNTIME_PIP


def explain_unloaded(missing: Sequence[MissingLibrary], logged: str) -> tuple[str, str]:
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
