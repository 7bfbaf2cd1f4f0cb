"""Claims about `gpt2 doctor`, in this process: lines, record, exit code."""

import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpt2cli.doctor.command import format_diagnosis
from gpt2cli.doctor.findings import Cuda, Diagnosis, HubAnswer, Place, Problem, Step
from gpt2cli.store.catalogue import CachedModel
from tests.gpt2cli.runner import error_line, invoke


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """Keep away from the user's own cache, state and hub; the starter is exported once."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
            patch.setenv(name, str(folder / name))
        yield folder


def test_it_tells_on_lines_and_ends_well() -> None:
    result = invoke("doctor", "--device", "cpu", "--offline")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\ndevice     cpu: a step of the starter model in fp32 ran on cpu in " in result.stdout
    assert ": not asked\n" in result.stdout


def test_the_record_tells_what_was_found(home: pathlib.Path) -> None:
    """A step that ran, with its time; the places, and the model that the step has exported."""
    record = json.loads(invoke("doctor", "--device", "cpu", "--offline", "--json").stdout)
    step = record["step"]
    assert (step["asked"], step["ran_on"], step["precision"]) == ("cpu", "cpu", "fp32")
    assert step["reason"] is None and 0 < step["milliseconds"] < 10_000
    assert "CPUExecutionProvider" in record["providers"]
    assert record["cores"] >= 1
    assert {"gpt2", "onnx", "numpy"} <= record["versions"].keys()
    places = {place["name"]: place["path"] for place in record["places"]}
    assert places.keys() == {"cache", "state", "hub-cache"}
    assert places["cache"] == str(home / "XDG_CACHE_HOME" / "gpt2")
    again = invoke("doctor", "--device", "cpu", "--offline", "--json", "--verify")
    record = json.loads(again.stdout)
    assert [(model["name"], model["fault"]) for model in record["models"]] == [("starter", None)]
    assert (again.exit_code, record["verified"]) == (0, True)


def test_a_damaged_model_is_a_failure_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = pathlib.Path("/models/m-fp32-1")
    broken = CachedModel("m", None, "fp32", 1, path, f"{path}: damaged")
    monkeypatch.setattr("gpt2cli.doctor.diagnosis.check_models", lambda **asked: [broken])
    problem = "problem    /models/m-fp32-1: damaged; gpt2 models rm m-fp32-1\n"
    for options, code in (["--verify"], 1), ([], 0):
        result = invoke("doctor", "--device", "cpu", "--offline", *options)
        assert (result.exit_code, problem in result.stdout) == (code, True)


def test_what_cannot_work_is_a_failure_with_the_whole_diagnosis() -> None:
    result = invoke("doctor", "--device", "cuda:77", "--offline", "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (1, "")
    assert record["works"] is False
    assert record["step"]["ran_on"] is None
    assert record["problems"][0]["text"].startswith("--device cuda:77: ")


def test_a_folder_that_is_no_model_folder_is_a_failure(tmp_path: pathlib.Path) -> None:
    """It was asked for by its name, whether or not it is to be read whole."""
    result = invoke("doctor", tmp_path, "--device", "cpu", "--offline")
    assert result.exit_code == 1
    assert f"{tmp_path} is not a model folder: it has no export.json" in result.stdout
    assert " 1 named, 1 damaged (" in result.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--device", "gpu"], "--device: expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        (["--thread"], "--thread"),
    ],
)
def test_a_wrong_use_is_a_usage_error(options: list[str], expected: str) -> None:
    result = invoke("doctor", *options)
    assert result.exit_code == 2
    assert expected in error_line(result)


# How a diagnosis is shown

SOUND = Diagnosis(
    system="Linux-6",
    python="3.11.7",
    cpu="EPYC",
    cores=2,
    versions={"gpt2": "0.1.0", "onnx": "1.23.2"},
    providers=("CUDAExecutionProvider", "CPUExecutionProvider"),
    cuda=Cuda(0, None, "13.0", "no NVIDIA driver", {}, None),
    step=Step("auto", "cpu", "fp32", 1.26, "no NVIDIA driver"),
    places=[Place("cache", "/c", 1500, 2_000_000, True), Place("state", "/s", 0, 0, False)],
    hub=HubAnswer("https://hub.test", True, 0.123),
    models=[CachedModel("starter", None, "fp32", 9, pathlib.Path("/c/s"))],
    verified=False,
    problems=[],
    works=True,
)


def lines(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the lines by their names, of which each is there once."""
    pairs = [
        line.split(maxsplit=1) for line in format_diagnosis(diagnosis, json=False).splitlines()
    ]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {pair[0]: pair[1] for pair in pairs}


def test_each_fact_has_a_line() -> None:
    text = format_diagnosis(SOUND, json=False)
    assert lines(SOUND) == {
        "system": "Linux-6, Python 3.11.7",
        "processor": "EPYC, 2 cores allowed",
        "versions": "gpt2 0.1.0, onnx 1.23.2",
        "providers": "CUDAExecutionProvider, CPUExecutionProvider",
        "driver": "no NVIDIA driver",
        "libraries": "those of CUDA 13.0 are there",
        "device": "auto: a step of the starter model in fp32 ran on cpu in 1.3 ms; "
        "not on CUDA: no NVIDIA driver",
        "cache": "/c: 1.5 kB, writable, 2.0 MB free",
        "state": "/s: 0 B, not writable, 0 B free",
        "hub": "https://hub.test: answers after 0.12 s",
        "models": "1 cached, 0 damaged (--verify reads them whole)",
        "works": "yes, on cpu",
    }
    assert all(line[10] == " " and line[11] != " " for line in text.splitlines())
    assert lines(replace(SOUND, verified=True))["models"] == "1 cached, 0 damaged (read whole)"


@pytest.mark.parametrize(
    ("cuda", "driver", "libraries"),
    [
        (Cuda(2, "12.8", None), "2 devices, CUDA 12.8", "this ONNX Runtime has no CUDA"),
        (
            Cuda(1, "13.0", "13.0", None, {"a.so": "a.so: No such file", "b.so": "too short"}, "x"),
            "1 device, CUDA 13.0",
            "of CUDA 13.0 missing: a.so, b.so (too short); x",
        ),
        (
            Cuda(0, None, "13.0", "no driver", {"a.so": "a.so: No such file"}, "x"),
            "no driver",
            "of CUDA 13.0 missing: a.so; x (needed only where there is a device)",
        ),
    ],
)
def test_what_cuda_lacks_is_told(cuda: Cuda, driver: str, libraries: str) -> None:
    """A library that is there and broken has its reason."""
    shown = lines(replace(SOUND, cuda=cuda))
    assert (shown["driver"], shown["libraries"]) == (driver, libraries)


def test_what_is_a_problem_stands_last_with_what_mends_it() -> None:
    """The line of the device points there; without ONNX Runtime no libraries were looked for."""
    step = Step("cuda", reason="long")
    problems = [Problem("a", "b"), Problem("c")]
    broken = replace(SOUND, step=step, providers=(), cuda=Cuda(1), problems=problems, works=False)
    text = format_diagnosis(broken, json=False)
    assert "\nproviders  none\n" in text
    assert "\nlibraries  not looked for\n" in text
    assert "\ndevice     cuda: nothing runs there; see the problem below\n" in text
    assert "\nproblem    a; b\nproblem    c\nworks      no: what was asked for" in text


def test_the_record_is_one_line_with_every_fact() -> None:
    text = format_diagnosis(SOUND, json=True)
    assert text.count("\n") == 1
    assert list(json.loads(text)) == [
        *("system", "python", "cpu", "cores", "versions", "providers", "cuda", "step"),
        *("places", "hub", "models", "verified", "problems", "works"),
    ]
