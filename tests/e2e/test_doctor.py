"""`gpt2 doctor` and `--device` as a shell runs them, also beside a driver that is none."""

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from gpt2cli.engine.devices import ask_driver
from tests.e2e.program import Finished, Program

if sys.platform != "linux":
    pytest.skip("a driver's name and the loader's path are Linux's", allow_module_level=True)

Machines = Mapping[str, Mapping[str, str]]

_DRIVER: Final = (
    "int cuInit(unsigned flags) { return 0; }\n"
    "int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n"
    "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }\n"
)
_MENDS: Final = r"use --device cpu, or: pip install 'onnxruntime-gpu\[cuda,cudnn\]'"
_GENERATE: Final = ("generate", "--model", "starter", "-n", "1", "--seed", "1", "x")

no_driver = pytest.mark.skipif(ask_driver().devices > 0, reason="there is an NVIDIA driver")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Return the variables of two machines: both have a driver, one a file that is no cuBLAS."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    driver, broken = (tmp_path_factory.mktemp(name) for name in ("driver", "broken"))
    (driver / "driver.c").write_text(_DRIVER)
    library = driver / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, driver / "driver.c"], check=True)
    (broken / "libcublasLt.so.13").write_text("no library")
    both = f"{broken}:{driver}"
    return {"driver": {"LD_LIBRARY_PATH": str(driver)}, "broken": {"LD_LIBRARY_PATH": both}}


@no_driver
def test_without_a_driver_a_named_device_is_an_error_and_auto_the_cpu(program: Program) -> None:
    """One line with the reason and what mends it; auto says nothing. --stats tells the device."""
    told = (
        "gpt2: error: --device cuda: no NVIDIA driver (libcuda.so.1) was found; use --device cpu, "
        "or install an NVIDIA driver and: pip install 'onnxruntime-gpu[cuda,cudnn]'\n"
    )
    assert program.run(*_GENERATE, "--device", "cuda") == Finished(1, b"", told)
    auto, stats = (program.run(*_GENERATE, *more) for more in (["--device", "auto"], ["--stats"]))
    assert auto == Finished(0, stats.out, "")
    assert "model starter, fp32 on cpu, " in stats.err


@no_driver
@pytest.mark.parametrize(
    ("machine", "device", "told"),
    [
        ("driver", "cuda", rf"error: --device cuda:0: libcublasLt\.so\..* {_MENDS}"),
        ("driver", "auto", "running on the CPU, not on CUDA: libcublasLt.*"),
        ("broken", "cuda", r"error: .*\(/\S*/libcublasLt\.so\.13: file too short\).*"),
    ],
)
def test_a_device_without_libraries_is_told_in_one_line_that_names_them(
    program: Program,
    machines: Machines,
    machine: str,
    device: str,
    told: str,
) -> None:
    """Nothing of what ONNX Runtime prints; with auto the result is that of the CPU."""
    done = program.run(*_GENERATE, "--device", device, environment=machines[machine])
    out = program.run(*_GENERATE).out if device == "auto" else b""
    assert (done.code, done.out) == (int(device != "auto"), out)
    assert re.fullmatch(f"gpt2: {told}\n", done.err)


@no_driver
def test_the_doctor_tells_all_of_it(program: Program, machines: Machines) -> None:
    """On stdout, where it can be piped; 1 where CUDA was asked for."""
    for code, options in ((0, []), (1, ["--device", "cuda"])):
        done = program.run("doctor", "--offline", *options, environment=machines["driver"])
        assert (done.code, done.err) == (code, "")
        assert b"\ndriver     1 device, CUDA 13.0\n" in done.out
        assert code or b"\nproblem    CUDA is not used, though there is a device: " in done.out


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
    assert done == Finished(1, b"", f"gpt2: error: {told}")
    doctor = program.run("doctor", "--offline", environment=shadowed)
    assert (doctor.code, doctor.err) == (1, "")
    assert f"\nproblem    {told}works      no: " in doctor.out.decode()
