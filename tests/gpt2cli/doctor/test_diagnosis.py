"""The diagnosis: what is asked for is tried, and what is broken is told, never raised."""

import pathlib
from collections.abc import Iterator

import pytest

from gpt2cli.doctor.diagnosis import Cuda, Diagnosis, Problem, Step, diagnose, find_problems
from gpt2cli.doctor.surroundings import CheckedModel, HubAnswer
from tests.gpt2cli.store.conftest import Told

HUB = HubAnswer("https://hub.test", True, 0.1)
RAN = Step("auto", "cpu", "fp32", 1.0, "no driver")
BOTH = {"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """Give these tests one home, in which the starter is exported once."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("HF_HOME", str(folder / "hub"))
        patch.delenv("HF_HUB_OFFLINE", raising=False)
        yield folder


def look(asked: str, *, verify: bool = False) -> Diagnosis:
    """Diagnose without a network."""
    return diagnose(asked, offline=False, verify=verify, listener=Told(), ask=lambda endpoint: None)


@pytest.fixture(scope="module")
def on_cpu(home: pathlib.Path) -> Diagnosis:
    """Return what is found on the CPU."""
    return look("cpu")


def test_a_step_runs_where_it_was_asked_for(on_cpu: Diagnosis) -> None:
    """With its time and precision; nothing is said of CUDA."""
    step = on_cpu.step
    assert (step.asked, step.ran_on, step.precision, step.reason) == ("cpu", "cpu", "fp32", None)
    assert step.milliseconds is not None and 0 < step.milliseconds < 10_000
    assert on_cpu.works


def test_what_stands_around_is_told(on_cpu: Diagnosis, home: pathlib.Path) -> None:
    """Providers, places and the model that the step has exported."""
    assert "CPUExecutionProvider" in on_cpu.providers
    assert [place.name for place in on_cpu.places] == ["cache", "state", "hub-cache"]
    assert on_cpu.places[0].path == str(home / "cache" / "gpt2")
    assert [(model.name, model.fault) for model in look("cpu").models] == [("starter", None)]
    assert on_cpu.hub.reached
    assert on_cpu.cores >= 1
    assert {"gpt2", "onnx", "numpy"} <= on_cpu.versions.keys()


def test_a_damaged_model_is_a_failure_where_it_was_looked_for(
    on_cpu: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by chance it is a problem alone."""
    broken = CheckedModel("m", "fp32", "/models/m-fp32-1", 1, "/models/m-fp32-1: damaged")
    monkeypatch.setattr("gpt2cli.doctor.diagnosis.check_models", lambda **asked: [broken])
    problem = Problem("/models/m-fp32-1: damaged", "gpt2 models rm m-fp32-1")
    for verify in (True, False):
        found = look("cpu", verify=verify)
        assert problem in found.problems
        assert found.works is not verify


def problems(
    *,
    versions: dict[str, str] | None = None,
    cuda: Cuda | None = None,
    step: Step = RAN,
    hub: HubAnswer = HUB,
) -> list[str]:
    """Return the problems' texts."""
    found = find_problems(versions or {}, cuda or Cuda(), step, hub, [])
    return [problem.text for problem in found]


def test_a_sound_machine_has_no_problem() -> None:
    """No GPU is none either, nor a hub that was not asked."""
    assert problems(versions={"onnxruntime": "1.32.0"}, hub=HubAnswer("x", None)) == []


def test_both_runtimes_are_a_problem_even_where_all_else_runs() -> None:
    """CUDA would break."""
    [text] = problems(versions=BOTH)
    assert text == (
        "onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 are both installed: CUDA cannot run"
    )


def test_the_same_is_not_told_twice() -> None:
    """Where the step has failed of it."""
    step = Step("cuda", reason="device cuda:0: a and b are both installed, which breaks CUDA")
    assert problems(versions=BOTH, step=step, cuda=Cuda(1)) == [step.reason]


def test_a_device_that_is_not_used_is_a_problem() -> None:
    """`auto` went to the CPU all the same."""
    step = Step("auto", "cpu", "fp32", 1.0, "no cuBLAS")
    assert problems(step=step, cuda=Cuda(1)) == [
        "CUDA is not used, though there is a device: no cuBLAS"
    ]


@pytest.mark.parametrize(
    ("has", "needs", "told"),
    [
        ("12.8", "13.0", True),
        ("13.0", "13.0", False),
        ("13.0", "13.2", False),
        (None, "13.0", False),
        ("12.8", None, False),
    ],
)
def test_a_driver_of_an_older_cuda_is_a_problem(
    has: str | None, needs: str | None, told: bool
) -> None:
    """Within a major version the driver may be older."""
    found = problems(cuda=Cuda(1, has, needs), step=Step("auto", "cuda:0"))
    assert found == ([f"the driver runs CUDA {has}, ONNX Runtime needs CUDA {needs}"] * told)


def test_a_hub_out_of_reach_is_a_problem() -> None:
    """With the reason."""
    hub = HubAnswer("https://hub.test", False, reason="timed out")
    assert problems(hub=hub) == ["https://hub.test cannot be reached (timed out)"]
