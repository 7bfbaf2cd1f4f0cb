"""What the doctor finds: folders, models, the hub, and what of it is a problem."""

import os
import pathlib
import shutil
import threading
import urllib.error
from typing import Any

import pytest

from gpt2cli.doctor.diagnosis import ask_hub, check_models, find_problems, list_places, look_at
from gpt2cli.doctor.findings import Cuda, HubAnswer, Step
from gpt2cli.store.memory import cache_folder

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
    found = find_problems(versions or {}, cuda or Cuda(), step, hub, [])
    return [problem.text for problem in found]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        # No GPU is no problem, nor a hub that was not asked.
        ({"versions": {"onnxruntime": "1.32.0"}, "hub": HubAnswer("x", None)}, []),
        # Even where all else runs: CUDA would break.
        (
            {"versions": BOTH},
            ["onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 are both installed: CUDA cannot run"],
        ),
        (
            {"step": Step("auto", "cpu", "fp32", 1.0, "no cuBLAS"), "cuda": Cuda(1)},
            ["CUDA is not used, though there is a device: no cuBLAS"],
        ),
        (
            {"hub": HubAnswer("https://hub.test", False, reason="timed out")},
            ["https://hub.test cannot be reached (timed out)"],
        ),
    ],
    ids=["sound", "both runtimes", "not used", "no hub"],
)
def test_what_should_be_mended_is_a_problem(found: dict[str, Any], told: list[str]) -> None:
    assert problems(**found) == told


def test_the_same_is_not_told_twice() -> None:
    step = Step("cuda", reason="device cuda:0: CUDA driver version is insufficient")
    assert problems(step=step, cuda=Cuda(1, "12.8", "13.0")) == [step.reason]


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


def test_a_place_has_the_size_of_its_files(tmp_path: pathlib.Path) -> None:
    """In all folders; a link counts as itself, not as what it points to."""
    (tmp_path / "in").mkdir()
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "in" / "b").write_bytes(b"123")
    before = look_at("x", tmp_path).size
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert before == 8
    assert look_at("x", tmp_path).size == 8 + len(str(tmp_path / "a"))


def test_a_place_that_is_not_there_can_be_made_where_its_parent_can_be_written(
    tmp_path: pathlib.Path,
) -> None:
    place = look_at("cache", tmp_path / "not" / "yet")
    assert (place.size, place.writable) == (0, True)
    assert place.free > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_place_that_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert not look_at("cache", tmp_path).writable
        assert not look_at("cache", tmp_path / "in").writable
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_HUB_CACHE": "/hub", "HUGGINGFACE_HUB_CACHE": "/old"}, "/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/home"}, "/old"),
        ({"HF_HOME": "/home"}, "/home/hub"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({}, str(pathlib.Path("~/.cache/huggingface/hub").expanduser())),
    ],
)
def test_the_hubs_cache_is_where_huggingface_hub_has_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """Its own variables first."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(list_places()["hub-cache"]) == expected


@pytest.fixture
def cached(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Return the folder of the one model in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return pathlib.Path(shutil.copytree(starter_folder, cache_folder() / "models" / "starter-x"))


def test_only_read_whole_do_models_show_any_damage(cached: pathlib.Path) -> None:
    """By the recorded hashes; a change that leaves the size is not seen otherwise."""
    path = cached / "model.onnx.data"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    [model] = check_models(verify=False)
    assert (model.path, model.fault) == (cached, None)
    [model] = check_models(verify=True)
    damage = "model.onnx.data is damaged: its sha256 is not the recorded one; export again"
    assert model.fault == f"{cached}: {damage}"


def test_a_hub_that_answers_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the endpoint that huggingface_hub's variable names."""
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.test/")
    asked: list[str] = []
    answer = ask_hub(offline=False, ask=asked.append)
    assert asked == ["https://mirror.test"]
    assert answer.reached is True
    assert answer.seconds is not None


def test_offline_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    asked: list[str] = []
    assert ask_hub(offline=True, ask=asked.append) == HubAnswer("https://huggingface.co", None)
    assert asked == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            urllib.error.URLError(OSError(-2, "Name or service not known")),
            "Name or service not known",
        ),
        (TimeoutError("timed out"), "timed out"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_why_it_cannot_be_reached_is_told_in_words(error: Exception, reason: str) -> None:

    def fail(endpoint: str) -> None:
        raise error

    answer = ask_hub(offline=False, ask=fail)
    assert (answer.reached, answer.reason) == (False, reason)


def test_a_silent_network_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server may be silent for longer than any time-out of a connection."""
    monkeypatch.setattr("gpt2cli.doctor.diagnosis._ASK_SECONDS", 0.05)
    ended = threading.Event()

    def wait(endpoint: str) -> None:
        ended.wait(30)

    answer = ask_hub(offline=False, ask=wait)
    ended.set()
    assert (answer.reached, answer.reason) == (False, "no answer within 0 s")
