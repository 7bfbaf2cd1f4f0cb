"""`gpt2 doctor` and `--device` as a shell runs them, also beside a driver that is none."""

import pathlib
import shutil
import subprocess
import sys
from typing import Final

import pytest

from gpt2cli.engine.devices import ask_driver
from tests.e2e.program import Program

if sys.platform != "linux":
    pytest.skip("a driver's name and the loader's path are Linux's", allow_module_level=True)

_DRIVER: Final = (
    "int cuInit(unsigned flags) { return 0; }\n"
    "int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n"
    "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }\n"
)
_GENERATE: Final = ("generate", "--model", "starter", "-n", "1", "--seed", "1", "x")

no_driver = pytest.mark.skipif(ask_driver().devices > 0, reason="there is an NVIDIA driver")


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a machine whose driver has a device, and nothing else."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    source, library = folder / "driver.c", folder / "libcuda.so.1"
    source.write_text(_DRIVER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


def break_library(folder: pathlib.Path, fake: dict[str, str]) -> dict[str, str]:
    """Return the variables of a machine that also has a file that is no cuBLAS."""
    (folder / "libcublasLt.so.13").write_text("no library")
    return {"LD_LIBRARY_PATH": f"{folder}:{fake['LD_LIBRARY_PATH']}"}


@no_driver
def test_without_a_driver_a_named_device_is_an_error(program: Program) -> None:
    """One line on stderr, with the reason and what mends it."""
    done = program.run(*_GENERATE, "--device", "cuda")
    assert (done.code, done.out) == (1, b"")
    assert done.err == (
        "gpt2: error: --device cuda: no NVIDIA driver (libcuda.so.1) was found; use --device cpu, "
        "or install an NVIDIA driver and: pip install 'onnxruntime-gpu[cuda,cudnn]'\n"
    )


@no_driver
def test_without_a_driver_auto_is_the_cpu_without_a_word(program: Program) -> None:
    """With --stats the device is told."""
    done = program.run(*_GENERATE, "--device", "auto")
    assert (done.code, done.err) == (0, "")
    told = program.run(*_GENERATE, "--stats")
    assert told.out == done.out
    assert "model starter, fp32 on cpu, " in told.err


@no_driver
def test_a_driver_without_libraries_is_an_error_that_names_them(
    program: Program, fake_driver: dict[str, str]
) -> None:
    """Nothing of what ONNX Runtime prints."""
    done = program.run(*_GENERATE, "--device", "cuda", environment=fake_driver)
    assert (done.code, done.out) == (1, b"")
    assert done.err.count("\n") == 1
    assert done.err.startswith("gpt2: error: --device cuda:0: libcublasLt.so.")
    assert done.err.endswith("use --device cpu, or: pip install 'onnxruntime-gpu[cuda,cudnn]'\n")


@no_driver
def test_auto_tells_why_a_device_is_not_used(program: Program, fake_driver: dict[str, str]) -> None:
    """In one line; the result is that of the CPU."""
    done = program.run(*_GENERATE, environment=fake_driver)
    assert (done.code, done.out) == (0, program.run(*_GENERATE).out)
    assert done.err.startswith("gpt2: running on the CPU, not on CUDA: libcublasLt")
    assert done.err.count("\n") == 1


@no_driver
def test_a_broken_library_is_told_by_its_path(
    program: Program, fake_driver: dict[str, str], tmp_path: pathlib.Path
) -> None:
    """The loader's own words."""
    broken = break_library(tmp_path, fake_driver)
    done = program.run(*_GENERATE, "--device", "cuda", environment=broken)
    assert (done.code, done.out, done.err.count("\n")) == (1, b"", 1)
    assert f"({tmp_path}/libcublasLt.so.13: file too short)" in done.err


@no_driver
def test_the_doctor_tells_all_of_it(program: Program, fake_driver: dict[str, str]) -> None:
    """On stdout, where it can be piped; 1 where CUDA was asked for."""
    done = program.run("doctor", "--offline", environment=fake_driver)
    assert (done.code, done.err) == (0, "")
    out = done.out.decode()
    assert "\ndriver     1 device, CUDA 13.0\n" in out
    assert "\nproblem    CUDA is not used, though there is a device: " in out
    asked = program.run("doctor", "--offline", "--device", "cuda", environment=fake_driver)
    assert (asked.code, asked.err) == (1, "")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("", "it is installed in part"),
        ("raise ImportError('no libonnxruntime')", "no libonnxruntime"),
    ],
)
def test_a_damaged_onnxruntime_is_told_by_the_doctor_and_by_every_command(
    program: Program, tmp_path: pathlib.Path, module: str, reason: str
) -> None:
    """One line with what mends it; the doctor tells all the rest too."""
    (tmp_path / "onnxruntime.py").write_text(module)
    shadowed = {"PYTHONPATH": str(tmp_path)}
    told = (
        f"ONNX Runtime cannot be used ({reason}); run: pip uninstall -y onnxruntime "
        "onnxruntime-gpu && pip install onnxruntime-gpu\n"
    )
    done = program.run(*_GENERATE, environment=shadowed)
    assert (done.code, done.out, done.err) == (1, b"", f"gpt2: error: {told}")
    doctor = program.run("doctor", "--offline", environment=shadowed)
    assert (doctor.code, doctor.err) == (1, "")
    assert f"\nproblem    {told}works      no: " in doctor.out.decode()
