"""A CUDA provider that computes on the CPU, and takes note of what it is told."""

import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest

CUDA = "CUDAExecutionProvider"


@dataclass(frozen=True)
class Bound:
    """Where an input or output lies, and of what dtype and shape it is; "host": copied by bind."""

    device: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()


@dataclass
class FakeCuda:
    """Stands for ONNX Runtime where a GPU is; `full_above` bytes of one output do not fit."""

    full_above: int | None = None
    settings: list[dict[str, str]] = field(default_factory=list)  # of each session
    runs: list[dict[str, Bound]] = field(default_factory=list)

    def open_session(
        self, model: str | bytes, options: Any, *, providers: Sequence[Any], enable_fallback: int
    ) -> Any:
        """Open a session as InferenceSession does; those on the CPU are real."""
        assert enable_fallback == 0
        real = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        if providers == ["CPUExecutionProvider"]:
            return real
        [(name, settings)] = providers
        assert name == CUDA
        assert options.log_severity_level == 4
        self.settings.append(settings)
        return _Session(self, real)


class _Session:
    def __init__(self, cuda: FakeCuda, real: Any) -> None:
        self._cuda = cuda
        self._real = real

    def get_providers(self) -> list[str]:
        return [CUDA, "CPUExecutionProvider"]

    def get_inputs(self) -> Any:
        return self._real.get_inputs()

    def run(self, names: Any, feeds: Any) -> Any:
        return self._real.run(names, feeds)

    def io_binding(self) -> "_Binding":
        return _Binding(self._real.io_binding())

    def run_with_iobinding(self, binding: "_Binding") -> None:
        self._cuda.runs.append(dict(binding.bound))
        self._real.run_with_iobinding(binding.real)
        for value in binding.get_outputs() if self._cuda.full_above else ():
            size = int(np.prod(value.shape())) * 4
            if size > (self._cuda.full_above or size):
                raise RuntimeError("Failed to allocate memory for requested buffer of size 9")


class _Binding:
    def __init__(self, real: Any) -> None:
        self.real = real
        self.bound: dict[str, Bound] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        self.bound[name] = Bound("host", array.dtype, array.shape)
        self.real.bind_cpu_input(name, array)

    def bind_input(
        self, name: str, kind: str, index: int, dtype: Any, shape: Any, address: int
    ) -> None:
        self.bound[name] = Bound(f"{kind}:{index}", np.dtype(dtype), tuple(shape))
        self.real.bind_input(name, "cpu", 0, dtype, shape, address)

    def bind_output(
        self,
        name: str,
        kind: str = "cpu",
        index: int = 0,
        dtype: Any = None,
        shape: Any = None,
        address: int | None = None,
    ) -> None:
        known = None if dtype is None else np.dtype(dtype)
        self.bound[name] = Bound(f"{kind}:{index}", known, tuple(shape or ()))
        self.real.bind_output(name, "cpu", 0, dtype, shape, address)

    def get_outputs(self) -> Any:
        return self.real.get_outputs()


def install(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> FakeCuda:
    """Let the engine meet a machine with a GPU and its libraries."""
    cuda = FakeCuda(**settings)
    runtime = types.SimpleNamespace(
        InferenceSession=cuda.open_session,
        SessionOptions=onnxruntime.SessionOptions,
        get_available_providers=lambda: [CUDA, "CPUExecutionProvider"],
        preload_dlls=lambda: None,
    )
    for module in ("failures", "session"):
        monkeypatch.setattr(f"gpt2cli.engine.{module}.onnxruntime", runtime)
    return cuda
