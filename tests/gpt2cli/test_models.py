"""Claims about `gpt2 models`."""

import json
import pathlib
import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

from gpt2cli.app import app
from tests.gpt2cli.runner import error_line, invoke


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    cache = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("XDG_STATE_HOME", str(cache))
        result = invoke("models", "pull", "starter")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "starter, fp32, is ready" in result.stderr
    return cache


@pytest.fixture(autouse=True)
def pulled(made: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test with the starter in a cache of its own."""
    shutil.copytree(made, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def list_models() -> list[dict[str, Any]]:
    return [*map(json.loads, invoke("models", "list", "--json").stdout.splitlines())]


def test_list_prints_a_table_or_a_record_per_line() -> None:
    table = invoke("models", "list").stdout.splitlines()
    assert table[0].split() == ["NAME", "REVISION", "PRECISION", "SIZE", "STATE"]
    assert table[1].split()[:3] == ["starter", "-", "fp32"]
    assert [record["name"] for record in list_models()] == ["starter"]


def test_show_prints_config_special_tokens_parameters_and_inputs() -> None:
    lines = invoke("models", "show", "starter").stdout.splitlines()
    shown = json.loads(invoke("models", "show", "starter", "--json").stdout)
    assert "parameters  5918720" in lines
    assert "  n_layer  6" in lines
    origins = {"begins": "generation_config.json", "ends": "generation_config.json"}
    assert shown["special_tokens"] == [
        {"id": 0, "text": "<|endoftext|>", **origins, "silent": "tokenizer.json"}
    ]
    assert lines[lines.index("special tokens") + 1] == (
        '  0  "<|endoftext|>"  begins a text (generation_config.json), '
        "ends a text (generation_config.json), never printed (tokenizer.json)"
    )
    assert shown["parameters"] == 5918720
    assert shown["inputs"][0] == ["input_ids", "int64", ["B", "S"]]


def test_show_takes_a_model_folder_of_the_users_own(starter_folder: pathlib.Path) -> None:
    """Described as one in the cache is, by the path that was given."""
    shown = json.loads(invoke("models", "show", starter_folder, "--json").stdout)
    assert (shown["path"], shown["parameters"]) == (str(starter_folder), 5918720)


def test_show_says_what_to_do_of_a_checkpoint_that_is_not_converted(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    result = CliRunner().invoke(app, ["models", "show", folder])

    assert result.exit_code == 1
    assert f"{folder} is not converted yet; `gpt2 models pull {folder}` does it" in result.stderr


def test_rm_does_not_take_a_folder_of_the_users_own(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    own = shutil.copytree(starter_folder, tmp_path / "own")
    result = invoke("models", "rm", own, "--yes")
    assert result.exit_code == 1
    assert "is not in the cache" in error_line(result)
    assert (own / "model.onnx").exists()


def test_a_bit_that_flipped_in_a_folder_of_the_users_own_is_found(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """By the sha256 that `export` recorded; the size is the same."""
    own = shutil.copytree(starter_folder, tmp_path / "own")
    with (own / "model.onnx.data").open("r+b") as file:
        byte = file.read(1)[0]
        file.seek(0)
        file.write(bytes([byte ^ 1]))
    result = invoke("models", "show", own)
    told = f"{own}: model.onnx.data is damaged: its sha256 is not the recorded one; export again"
    assert (result.exit_code, error_line(result)) == (1, told)


def test_each_precision_is_a_model_of_its_own() -> None:
    """Listed, shown and removed by its precision, with the parameters of the checkpoint."""
    of_int8 = ("starter", "--precision", "int8")
    assert "starter, int8, is ready" in invoke("models", "pull", *of_int8).stderr
    sizes = {record["precision"]: record["size"] for record in list_models()}
    assert list(sizes) == ["fp32", "int8"]
    assert sizes["int8"] < sizes["fp32"] / 3
    shown = json.loads(invoke("models", "show", *of_int8, "--json").stdout)
    assert shown["parameters"] == 5918720
    invoke("models", "rm", *of_int8, "--yes")
    assert [record["precision"] for record in list_models()] == ["fp32"]


@pytest.mark.parametrize("answer", [b"n\n", b"", b"perhaps\n", b"\xff"])
def test_rm_asks_and_keeps_all_without_a_yes(answer: bytes) -> None:
    """No answer is a no, told by the exit code; on stdout stands nothing."""
    result = CliRunner().invoke(app, ["models", "rm", "starter"], input=answer)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(" MB? [y/N] \ngpt2: nothing was removed\n")
    assert len(list_models()) == 1


@pytest.mark.parametrize(("arguments", "answer"), [(["--yes"], ""), ([], "y\n")])
def test_rm_removes_after_a_yes(arguments: list[str], answer: str) -> None:
    result = CliRunner().invoke(app, ["models", "rm", "starter", *arguments], input=answer)
    assert result.exit_code == 0
    assert list_models() == []


@pytest.mark.parametrize("verb", ["show", "rm"])
def test_what_is_not_cached_is_one_line(verb: str) -> None:
    result = invoke("models", verb, "distilgpt2")
    assert result.exit_code == 1
    assert "gpt2 models list" in error_line(result)
