"""Claims about `gpt2 models`."""

import json
import pathlib
import shutil

import pytest
from typer.testing import CliRunner

from gpt2cli.app import app


@pytest.fixture(autouse=True)
def pulled(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test with the starter in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    result = CliRunner().invoke(app, ["models", "pull", "starter"])

    assert result.exit_code == 0
    assert "starter, fp32, is ready" in result.stderr
    assert result.stdout == ""


def test_list_prints_a_table_or_a_record_per_line() -> None:
    """The same facts for people and for jq."""
    table = CliRunner().invoke(app, ["models", "list"]).stdout.splitlines()
    records = CliRunner().invoke(app, ["models", "list", "--json"]).stdout.splitlines()

    assert table[0].split() == ["NAME", "REVISION", "PRECISION", "SIZE", "STATE"]
    assert table[1].split()[:3] == ["starter", "-", "fp32"]
    assert [json.loads(line)["name"] for line in records] == ["starter"]


def test_show_prints_config_special_tokens_parameters_and_inputs() -> None:
    """As lines, or as one JSON object."""
    lines = CliRunner().invoke(app, ["models", "show", "starter"]).stdout.splitlines()
    shown = json.loads(CliRunner().invoke(app, ["models", "show", "starter", "--json"]).stdout)

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
    result = CliRunner().invoke(app, ["models", "show", str(starter_folder), "--json"])
    shown = json.loads(result.stdout)

    assert (shown["path"], shown["parameters"]) == (str(starter_folder), 5918720)


def test_show_says_what_to_do_of_a_checkpoint_that_is_not_converted(
    tmp_path: pathlib.Path,
) -> None:
    """Nothing is converted by looking."""
    folder = str(tmp_path)
    result = CliRunner().invoke(app, ["models", "show", folder])

    assert result.exit_code == 1
    assert f"{folder} is not converted yet; `gpt2 models pull {folder}` does it" in result.stderr


def test_rm_does_not_take_a_folder_of_the_users_own(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It removes from the cache alone."""
    own = shutil.copytree(starter_folder, tmp_path / "own")
    result = CliRunner().invoke(app, ["models", "rm", str(own), "--yes"])

    assert result.exit_code == 1
    assert "is not in the cache" in result.stderr
    assert (own / "model.onnx").exists()


@pytest.mark.parametrize(
    "command", [("models", "show"), ("doctor", "--device", "cpu", "--offline", "--verify")]
)
def test_a_bit_that_flipped_in_a_folder_of_the_users_own_is_found(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, command: tuple[str, ...]
) -> None:
    """By the sha256 that `export` recorded; the size is the same."""
    own = shutil.copytree(starter_folder, tmp_path / "own")
    whole = CliRunner().invoke(app, [*command, str(own)])
    with (own / "model.onnx.data").open("r+b") as file:
        byte = file.read(1)[0]
        file.seek(0)
        file.write(bytes([byte ^ 1]))
    damaged = CliRunner().invoke(app, [*command, str(own)])

    told = f"{own}: model.onnx.data is damaged: its sha256 is not the recorded one; export again"
    assert (whole.exit_code, damaged.exit_code) == (0, 1)
    assert told not in whole.output
    assert told in damaged.output


def test_each_precision_is_a_model_of_its_own() -> None:
    """Listed, shown and removed by its precision, with the parameters of the checkpoint."""
    pulled = CliRunner().invoke(app, ["models", "pull", "starter", "--precision", "int8"])
    shown = CliRunner().invoke(app, ["models", "show", "starter", "--precision", "int8", "--json"])
    listed = CliRunner().invoke(app, ["models", "list", "--json"]).stdout.splitlines()
    sizes = {record["precision"]: record["size"] for record in map(json.loads, listed)}

    assert "starter, int8, is ready" in pulled.stderr
    assert list(sizes) == ["fp32", "int8"]
    assert sizes["int8"] < sizes["fp32"] / 3
    assert json.loads(shown.stdout)["parameters"] == 5918720

    CliRunner().invoke(app, ["models", "rm", "starter", "--precision", "int8", "--yes"])
    left = CliRunner().invoke(app, ["models", "list", "--json"]).stdout.splitlines()
    assert [json.loads(line)["precision"] for line in left] == ["fp32"]


@pytest.mark.parametrize("answer", [b"n\n", b"", b"perhaps\n", b"\xff"])
def test_rm_asks_and_keeps_all_without_a_yes(answer: bytes) -> None:
    """No answer is a no, told by the exit code; on stdout stands nothing."""
    result = CliRunner().invoke(app, ["models", "rm", "starter"], input=answer)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(" MB? [y/N] \ngpt2: nothing was removed\n")
    assert "starter" in CliRunner().invoke(app, ["models", "list"]).stdout


@pytest.mark.parametrize(("arguments", "answer"), [(["--yes"], ""), ([], "y\n")])
def test_rm_removes_after_a_yes(arguments: list[str], answer: str) -> None:
    """Given beforehand or when asked."""
    result = CliRunner().invoke(app, ["models", "rm", "starter", *arguments], input=answer)

    assert result.exit_code == 0
    assert "starter" not in CliRunner().invoke(app, ["models", "list"]).stdout


@pytest.mark.parametrize("verb", ["show", "rm"])
def test_what_is_not_cached_is_one_line(verb: str) -> None:
    """The network is not asked for it."""
    result = CliRunner().invoke(app, ["models", verb, "distilgpt2"])

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "gpt2 models list" in result.stderr
