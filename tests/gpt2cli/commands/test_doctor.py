"""Claims about `gpt2 doctor`, in this process: lines, record, exit code."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.gpt2cli.runner import error_line, invoke


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep away from the user's own cache, state and hub; the starter is exported once."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
            patch.setenv(name, str(folder / name))
        yield


def test_it_tells_on_lines_and_ends_well() -> None:
    """Stderr is empty where nobody watches."""
    result = invoke("doctor", "--device", "cpu", "--offline")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\ndevice     cpu: a step of the starter model in fp32 ran on cpu in " in result.stdout
    assert "\nhub        https://" in result.stdout
    assert ": not asked\n" in result.stdout


def test_what_cannot_work_is_a_failure_with_the_whole_diagnosis() -> None:
    """The record is written, and the exit code is 1."""
    result = invoke("doctor", "--device", "cuda:77", "--offline", "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (1, "")
    assert record["works"] is False
    assert record["step"]["ran_on"] is None
    assert record["problems"][0]["text"].startswith("--device cuda:77: ")


def test_cached_models_are_read_whole_where_that_is_asked() -> None:
    """The starter is there since its step ran, if by no other test."""
    result = invoke("doctor", "--device", "cpu", "--offline", "--verify")
    assert result.exit_code == 0
    assert "1 cached, 0 damaged (read whole)" in result.stdout


def test_a_folder_that_is_no_model_folder_is_a_failure(tmp_path: pathlib.Path) -> None:
    """It was asked for by its name, whether or not it is to be read whole."""
    result = invoke("doctor", tmp_path, "--device", "cpu", "--offline")
    assert result.exit_code == 1
    assert f"{tmp_path} is no model folder: it has no export.json" in result.stdout
    assert " 1 named, 1 damaged (" in result.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--device", "gpu"], "--device: expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        (["--thread"], "--thread"),
    ],
)
def test_a_wrong_use_is_a_usage_error(options: list[str], expected: str) -> None:
    """One line and 2."""
    result = invoke("doctor", *options)
    assert result.exit_code == 2
    assert expected in error_line(result)
