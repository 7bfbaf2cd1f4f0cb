"""What is a problem: of what was found, what the user should mend."""

import pytest

from gpt2cli.doctor.diagnosis import Cuda, Step, find_problems
from gpt2cli.doctor.surroundings import HubAnswer

HUB = HubAnswer("https://hub.test", True, 0.1)
RAN = Step("auto", "cpu", "fp32", 1.0, "no driver")
BOTH = {"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"}


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
    step = Step("cuda", reason="device cuda:0: CUDA driver version is insufficient")
    assert problems(step=step, cuda=Cuda(1, "12.8", "13.0")) == [step.reason]


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
