"""What ONNX Runtime prints reaches nobody, and what it raises is told in one line.

The texts are those that onnxruntime 1.31.1 wrote on machines without a GPU, with libraries missing,
broken, too old, or all there beside a driver that is a fake.
"""

import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import onnxruntime
import pytest

from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import captured, explain_failure, failures_told, preload_libraries
from gpt2cli.engine.session import try_cuda
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError

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
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:63 "
    '[ONNXRuntimeError] : 1 : FAIL : Failed to parse provider option "device_id": CUDA failure '
    "35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=vm ; "
    "line=70 ; expr=cudaGetDeviceCount(&num_devices); "
)
_PIP: Final = "pip install 'onnxruntime-gpu[cuda,cudnn]'"


class _CpuSession:
    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def log(reason: str) -> None:
    """Write what ONNX Runtime logs of a provider's library, in its colours, on stderr."""
    text = f"\x1b[1;31m2026-11-30 [E:onnxruntime:Default] Failed to load library {_LIBRARY}"
    os.write(2, f"{text} with error: {reason}\n\x1b[m\n".encode())


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes ONNX Runtime behave like this."""

    def install_runtime(
        *,
        printed: str = "",
        reason: str = "",
        error: Exception | None = None,
        providers: tuple[str, ...] = ("CUDAExecutionProvider", "CPUExecutionProvider"),
    ) -> None:
        def open_session(*arguments: Any, **settings: Any) -> Any:
            if reason:
                log(reason)
            if error is not None:
                print("*************** EP Error ***************")
                raise error
            return _CpuSession()

        runtime = types.SimpleNamespace(
            InferenceSession=open_session,
            SessionOptions=onnxruntime.SessionOptions,
            cuda_version="13.0",
            get_available_providers=lambda: list(providers),
            preload_dlls=lambda: print(printed, end=""),
        )
        for module in ("failures", "session"):
            monkeypatch.setattr(f"gpt2cli.engine.{module}.onnxruntime", runtime)

    return install_runtime


@pytest.mark.parametrize(
    ("settings", "reason", "advice"),
    [
        (
            {"printed": _PRELOAD, "reason": f"libcublasLt.so.13: {_ABSENT}"},
            f"libcublasLt.so.13, libcurand.so.10 cannot be loaded (libcublasLt.so.13: {_ABSENT})",
            _PIP,
        ),
        (
            {"printed": _BROKEN_PRELOAD, "reason": f"libcublasLt.so.13: {_ABSENT}"},
            "libcublasLt.so.13, libcublas.so.13 cannot be loaded "
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
            "the CUDA provider cannot be loaded "
            f"({_LIBRARY}: undefined symbol: cuTensorMapEncodeTiled)",
            "install a newer NVIDIA driver",
        ),
        ({}, "the CUDA provider cannot be loaded (ONNX Runtime does not say why)", _PIP),
        (
            {"error": RuntimeError(_TOO_OLD)},
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
            "update the driver: this ONNX Runtime needs CUDA 13.0",
        ),
    ],
    ids=["missing", "broken", "no-preload", "symbol", "silent", "driver-too-old"],
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
            "this ONNX Runtime (onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1) has no CUDA",
        ),
        ({"onnxruntime": "1.32.0"}, "this ONNX Runtime (onnxruntime 1.32.0) has no CUDA"),
    ],
)
def test_a_runtime_without_cuda_is_told_by_the_packages(
    install: Install, monkeypatch: pytest.MonkeyPatch, runtimes: dict[str, str], reason: str
) -> None:
    """Two packages share one folder: the one installed last wins."""
    install(providers=("AzureExecutionProvider", "CPUExecutionProvider"))
    monkeypatch.setattr("gpt2cli.engine.failures.find_versions", lambda packages: runtimes)
    with pytest.raises(DeviceError) as caught:
        try_cuda(DEVICE)
    assert str(caught.value) == (
        f"device cuda:0: {reason}; use device cpu, or: pip uninstall -y onnxruntime "
        "onnxruntime-gpu && pip install onnxruntime-gpu"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="names of Linux's libraries")
def test_what_onnxruntime_really_prints_is_understood(capfd: pytest.CaptureFixture[str]) -> None:
    """Where libraries are missing here, they are found in its output, and nothing is printed."""
    for name, reason in preload_libraries().items():
        assert ".so" in name
        assert name in reason
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running "
        "MatMul node. Name:'x' Status Message: /onnxruntime_src/bfc_arena.cc:376 "
        "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 9",
        "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0 ; hostname=vm",
        "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; expr=cublasCreate(&handle);",
        "std::bad_alloc",
    ],
)
def test_full_memory_is_known_whoever_says_it(text: str) -> None:
    """Of the arena, the CUDA runtime, cuBLAS, and the host."""
    error = explain_failure(RuntimeError(text), DEVICE, ", loading x")
    assert isinstance(error, DeviceFullError)
    assert "its memory is full, loading x; run fewer rows at once (batch_size," in str(error)


@pytest.mark.parametrize("text", ["no kernel", "std::bad_alloc"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_the_cpu_is_no_advice_to_who_runs_on_it(text: str, by_rows: bool) -> None:
    told = str(explain_failure(RuntimeError(text), Device("cpu"), by_rows=by_rows))
    assert told.startswith("device cpu: ")
    assert "use device cpu" not in told
    assert "; " in told


def test_known_failures_and_our_own_faults_pass_as_they_are() -> None:
    """What is known already says more; a fault of ours is no failure of the device's."""
    for error in (ModelError("known"), AssertionError(), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, failures_told(DEVICE):
            raise error
        assert caught.value is error
    with pytest.raises(DeviceError) as refused, failures_told(DEVICE, ", at work"):
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : no kernel.\nat x")
    assert type(refused.value) is DeviceError  # which asking for less would not mend
    assert str(refused.value) == "device cuda:0: no kernel, at work; use device cpu"


def test_all_that_is_printed_in_the_block_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    """By Python on stdout, and on both descriptors by whatever else; nothing from before it."""
    print("before")
    with captured() as found:
        print("a")
        os.write(1, b"c\n")
        os.write(2, b"\xff\n")  # a library may write in any encoding
        subprocess.run(["sh", "-c", "echo e; echo f >&2"], check=True)
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")
    assert sorted(found.text.split()) == ["a", "c", "e", "f", "\ufffd"]


def test_streams_come_back_when_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="boom"), captured():
        print("lost")
        raise OSError("boom")
    print("result")
    os.write(2, b"note\n")
    assert capfd.readouterr() == ("result\n", "note\n")


@contextmanager
def closed(number: int) -> Iterator[None]:
    """Close a stream in the block; it is still closed after it."""
    kept = os.dup(number)
    os.close(number)
    try:
        yield
        with pytest.raises(OSError):
            os.fstat(number)
    finally:
        os.dup2(kept, number)
        os.close(kept)


def test_closed_streams_stay_closed() -> None:
    """A program started without them can still try a device."""
    for number in (1, 2):
        with closed(number), captured() as found:
            os.write(number, b"x")
        assert found.text == "x"
