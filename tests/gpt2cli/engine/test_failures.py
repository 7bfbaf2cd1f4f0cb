"""What is made of ONNX Runtime's exceptions."""

from typing import Final

import pytest

from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import explain_failure, failures_told, find_reason
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError

DEVICE: Final = Device("cuda")


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


def test_other_failures_are_no_full_memory() -> None:
    """They are not met by asking for less."""
    error = explain_failure(
        RuntimeError("[ONNXRuntimeError] : 1 : FAIL : no kernel.\nat x"), DEVICE
    )
    assert type(error) is DeviceError
    assert str(error) == "device cuda:0: no kernel; use device cpu"


@pytest.mark.parametrize("text", ["no kernel", "std::bad_alloc"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_the_cpu_is_no_advice_to_who_runs_on_it(text: str, by_rows: bool) -> None:
    """There is other advice."""
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
    with (
        pytest.raises(DeviceError, match="no kernel, at work; use"),
        failures_told(DEVICE, ", at work"),
    ):
        raise RuntimeError("no kernel")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : no kernel.\nmore", "no kernel"),
        ("plain", "plain"),
        ("", "RuntimeError"),
        (
            "x.cc:1 CUDA failure 700: an illegal memory access ; GPU=0",
            "CUDA failure 700: an illegal memory access",
        ),
    ],
)
def test_an_exception_is_told_without_files_and_lines(text: str, short: str) -> None:
    """One line of it, and of that what matters."""
    assert find_reason(RuntimeError(text)) == short
