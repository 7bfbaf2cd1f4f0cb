"""Why CUDA cannot be used, in one line: by what ONNX Runtime 1.31.1 prints and raises.

The texts are those that it wrote on machines without a GPU, with libraries missing, broken, too
old, or all there beside a driver that is a fake.
"""

import os
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import onnxruntime
import pytest

from gpt2cli.engine import try_cuda
from gpt2cli.engine.cuda_libraries import preload_libraries
from gpt2cli.engine.devices import Device
from gpt2cli.errors import DeviceError

DEVICE: Final = Device("cuda", 0)
_LIBRARY: Final = "/site/onnxruntime/capi/libonnxruntime_providers_cuda.so"
_ABSENT: Final = "cannot open shared object file: No such file or directory"
_PRELOAD: Final = (
    f"Failed to load libcublasLt.so.13: libcublasLt.so.13: {_ABSENT}\n"
    f"Failed to load libcurand.so.10: libcurand.so.10: {_ABSENT}\n"
    "Please follow https://onnxruntime.ai/docs/install/#cuda-and-cudnn to install CUDA.\n"
)
_BROKEN_PRELOAD: Final = (
    f"Failed to load libcublasLt.so.13: libcublasLt.so.13: {_ABSENT}\n"
    "Failed to load libcublas.so.13: /there/libcublas.so.13: file too short\n"
)
_TOO_OLD: Final = (
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:63 static "
    "onnxruntime::CUDAExecutionProviderInfo onnxruntime::CUDAExecutionProviderInfo::"
    "FromProviderOptions(const onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : "
    'provider_options_utils.h:187 Parse Failed to parse provider option "device_id": CUDA failure '
    "35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=vm ; "
    "file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc ; "
    "line=70 ; expr=cudaGetDeviceCount(&num_devices); "
)
_PIP: Final = "pip install 'onnxruntime-gpu[cuda,cudnn]'"


class _CpuSession:
    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def run(self, names: Any, feeds: Any) -> list[Any]:
        return [feeds["x"] @ feeds["x"]]


def log(reason: str) -> None:
    """Write what ONNX Runtime logs of a provider's library, in its colours, on stderr."""
    text = f"\x1b[1;31m2026-11-30 [E:onnxruntime:Default] Failed to load library {_LIBRARY}"
    os.write(2, f"{text} with error: {reason}\n\x1b[m\n".encode())


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes ONNX Runtime behave like this."""

    def install_runtime(
        *,
        printed: str = "",
        reason: str = "",
        error: Exception | None = None,
        providers: tuple[str, ...] = ("CUDAExecutionProvider", "CPUExecutionProvider"),
        session: Any = None,
    ) -> None:
        def open_session(*arguments: Any, **settings: Any) -> Any:
            if reason:
                log(reason)
            if error is not None:
                print("*************** EP Error ***************")
                raise error
            return session or _CpuSession()

        runtime = types.SimpleNamespace(
            InferenceSession=open_session,
            SessionOptions=onnxruntime.SessionOptions,
            cuda_version="13.0",
            get_available_providers=lambda: list(providers),
            preload_dlls=lambda: print(printed, end=""),
        )
        for module in ("cuda_libraries", "session"):
            monkeypatch.setattr(f"gpt2cli.engine.{module}.onnxruntime", runtime)

    return install_runtime


Install = Callable[..., None]


@pytest.mark.parametrize(
    ("settings", "reason", "advice"),
    [
        (
            {"printed": _PRELOAD, "reason": f"libcublasLt.so.13: {_ABSENT}"},
            "libcublasLt.so.13 and libcurand.so.10 cannot be loaded "
            f"(libcublasLt.so.13: {_ABSENT})",
            _PIP,
        ),
        (
            {"printed": _BROKEN_PRELOAD, "reason": f"libcublasLt.so.13: {_ABSENT}"},
            "libcublasLt.so.13 and libcublas.so.13 cannot be loaded "
            "(/there/libcublas.so.13: file too short)",
            _PIP,
        ),
        (
            {"reason": f"libcudart.so.13: {_ABSENT}"},
            f"the CUDA provider cannot be loaded (libcudart.so.13: {_ABSENT})",
            _PIP,
        ),
        (
            {"reason": f"{_LIBRARY}: undefined symbol: cuTensorMapEncodeTiled"},
            "the NVIDIA driver is none, or too old "
            f"({_LIBRARY}: undefined symbol: cuTensorMapEncodeTiled)",
            "install an NVIDIA driver",
        ),
        (
            {"reason": f"libcuda.so.1: {_ABSENT}"},
            f"the NVIDIA driver is none, or too old (libcuda.so.1: {_ABSENT})",
            "install an NVIDIA driver",
        ),
        ({}, "ONNX Runtime ran it on the CPU without saying why", _PIP),
        (
            {"error": RuntimeError(_TOO_OLD)},
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
            "update the driver: this ONNX Runtime needs CUDA 13.0",
        ),
    ],
    ids=["missing", "broken", "no-preload", "symbol", "no-driver", "silent", "driver-too-old"],
)
def test_the_reason_is_told_in_one_line_with_what_mends_it(
    install: Install,
    capfd: pytest.CaptureFixture[str],
    settings: dict[str, Any],
    reason: str,
    advice: str,
) -> None:
    """And nothing that ONNX Runtime printed reaches the user, on either stream."""
    install(**settings)
    with pytest.raises(DeviceError) as caught:
        try_cuda(DEVICE)
    assert str(caught.value) == f"device cuda:0: {reason}; use device cpu, or: {advice}"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("runtimes", "reason"),
    [
        (
            {"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"},
            "onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 are both installed, which breaks CUDA",
        ),
        ({"onnxruntime": "1.32.0"}, "this build of ONNX Runtime (onnxruntime) has no CUDA"),
        ({}, "this build of ONNX Runtime (onnxruntime) has no CUDA"),
    ],
)
def test_a_runtime_without_cuda_is_told_by_the_packages(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    runtimes: dict[str, str],
    reason: str,
) -> None:
    """Two packages share one folder: the one installed last wins."""
    install(providers=("AzureExecutionProvider", "CPUExecutionProvider"))
    monkeypatch.setattr("gpt2cli.engine.cuda_libraries.find_versions", lambda packages: runtimes)
    with pytest.raises(DeviceError) as caught:
        try_cuda(DEVICE)
    assert str(caught.value) == (
        f"device cuda:0: {reason}; use device cpu, or: pip uninstall -y onnxruntime "
        "onnxruntime-gpu && pip install onnxruntime-gpu"
    )


def test_a_device_that_computes_wrongly_is_refused(install: Install) -> None:
    """A wrong product is not run on."""

    class Wrong(_CpuSession):
        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

        def run(self, names: Any, feeds: Any) -> list[Any]:
            return [feeds["x"]]

    install(session=Wrong())
    with pytest.raises(DeviceError, match="device cuda:0: it multiplies wrongly; use device"):
        try_cuda(DEVICE)


def test_what_preloading_lacks_is_told_by_library(install: Install) -> None:
    """Each with the loader's reason."""
    install(printed=_PRELOAD)
    assert [(lib.name, lib.reason) for lib in preload_libraries()] == [
        ("libcublasLt.so.13", f"libcublasLt.so.13: {_ABSENT}"),
        ("libcurand.so.10", f"libcurand.so.10: {_ABSENT}"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="names of Linux's libraries")
def test_what_onnxruntime_really_prints_is_understood(capfd: pytest.CaptureFixture[str]) -> None:
    """Where libraries are missing here, they are found in its output, and nothing is printed."""
    for library in preload_libraries():
        assert ".so" in library.name
        assert library.name in library.reason
    assert capfd.readouterr() == ("", "")
