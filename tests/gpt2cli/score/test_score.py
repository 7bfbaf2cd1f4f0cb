"""Claims about `gpt2 score`, in this process: lines, records, files, options, statistics."""

import json
import math
import pathlib
from typing import Any

import pytest

from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

KEYS = [
    *("index", "file", "perplexity", "total_logprob", "scored_tokens", "tokens", "stride"),
    *("model", "revision", "precision", "device"),
]


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder: n_positions 33, each z is a token."""
    return model_folders()


def run(model: pathlib.Path, *arguments: str | pathlib.Path) -> str:
    """Return the output of a run that must succeed in silence."""
    result = invoke("score", "-m", model, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def run_json(model: pathlib.Path, *arguments: str | pathlib.Path) -> list[dict[str, Any]]:
    """Return the records of a run that must succeed in silence."""
    return [json.loads(line) for line in run(model, "--json", *arguments).splitlines()]


def test_each_line_is_a_token_and_the_last_one_tells_the_perplexity(small: pathlib.Path) -> None:
    """Tabs between; the perplexity is that of the logprobs above it."""
    *lines, last = [line.split("\t") for line in run(small, "zqz").splitlines()]
    assert [token for _, token in lines] == ['"z"', '"q"', '"z"']
    mean = sum(float(logprob) for logprob, _ in lines) / 3
    assert last[0] == "perplexity"
    assert float(last[1]) == pytest.approx(math.exp(-mean), rel=1e-5)
    assert last[2:] == ["3"]


def test_a_record_has_the_keys_of_the_contract(small: pathlib.Path) -> None:
    """Its numbers agree with each other, and its tokens are those of the text."""
    [record] = run_json(small, "zqz")
    logprobs = [token["logprob"] for token in record["tokens"]]
    assert list(record) == KEYS
    assert [token["text"] for token in record["tokens"]] == ["z", "q", "z"]
    assert all(list(token) == ["id", "text", "logprob"] for token in record["tokens"])
    assert record["total_logprob"] == pytest.approx(sum(logprobs))
    assert record["perplexity"] == pytest.approx(math.exp(-sum(logprobs) / 3))
    assert (record["index"], record["file"], record["scored_tokens"]) == (0, None, 3)
    assert (record["stride"], record["model"], record["device"]) == (16, str(small), "cpu")


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
def test_an_empty_text_has_no_token_and_no_perplexity(small: pathlib.Path, form: list[str]) -> None:
    shown = run(small, "", *form)
    if form:
        record = json.loads(shown)
        assert (record["perplexity"], record["total_logprob"]) == (None, 0)
        assert (record["scored_tokens"], record["tokens"]) == (0, [])
    else:
        assert shown == "perplexity\t-\t0\n"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
def test_several_files_give_several_results_each_with_its_name(
    small: pathlib.Path, tmp_path: pathlib.Path, form: list[str]
) -> None:
    files = [tmp_path / "b", tmp_path / "a"]
    for file, text in zip(files, ("zz\n", "q"), strict=True):
        file.write_text(text)
    options = [part for file in files for part in ("--file", file)]
    lines = run(small, *options, *form).splitlines()
    if form:
        records = [json.loads(line) for line in lines]
        assert [record["index"] for record in records] == [0, 1]
        assert [record["file"] for record in records] == [str(file) for file in files]
        assert [record["scored_tokens"] for record in records] == [2, 1]
    else:
        ends = [line.split("\t")[2:] for line in lines if line.startswith("perplexity")]
        assert ends == [["2", str(files[0])], ["1", str(files[1])]]


def test_the_likeliest_tokens_come_with_their_logprobs(small: pathlib.Path) -> None:
    """In the lines as further pairs of columns, in the record as a list; best first."""
    columns = run(small, "z", "--top", "3").splitlines()[0].split("\t")
    [record] = run_json(small, "z", "--top", "3")
    [token] = record["tokens"]
    assert len(columns) == 8
    assert [float(c) for c in columns[2::2]] == sorted(map(float, columns[2::2]), reverse=True)
    logprobs = [f"{other['logprob']:.6f}" for other in token["alternatives"]]
    assert columns[2::2] == logprobs
    assert all({"id", "text", "logprob"} <= set(other) for other in token["alternatives"])


def test_a_part_of_a_character_is_told_by_its_bytes(small: pathlib.Path) -> None:
    """In the lines as escapes; in the record beside U+FFFD. Here each byte is a token."""
    lines = run(small, "é\n").splitlines()
    [record] = run_json(small, "é\n")
    assert [line.split("\t")[1] for line in lines[:3]] == [r'"\xc3"', r'"\xa9"', r'"\n"']
    texts = [(token["text"], token.get("bytes")) for token in record["tokens"]]
    assert texts == [("�", [0xC3]), ("�", [0xA9]), ("\n", None)]


def test_a_special_token_is_text_unless_it_is_allowed(small: pathlib.Path) -> None:
    [plain] = run_json(small, "<|endoftext|>")
    [special] = run_json(small, "<|endoftext|>", "--allow-special")
    assert plain["scored_tokens"] > 1
    assert [token["text"] for token in special["tokens"]] == ["<|endoftext|>"]


def test_a_text_longer_than_the_context_is_scored_in_windows(small: pathlib.Path) -> None:
    [record] = run_json(small, "z" * 100, "--stride", "32")
    assert (record["scored_tokens"], record["stride"]) == (100, 32)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--stride", "0"], "--stride: expected a whole number 1 or more"),
        (["--stride", "33"], "--stride: expected 1 to 32, less than the model's context"),
        (["--top", "-1"], "--top: expected a whole number 0 or more, found -1"),
        (["-f", "/missing"], "no text argument together with it"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_usage_errors_of_one_line(
    small: pathlib.Path, options: list[str], expected: str
) -> None:
    result = invoke("score", "-m", small, "z", *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(expected) or expected in error_line(result)


def test_a_missing_file_is_told_before_the_model_is_loaded() -> None:
    """The model that is named here does not exist."""
    result = invoke("score", "-m", "/missing", "-f", "/no/such/file")
    assert result.exit_code == 1
    assert error_line(result) == "--file: cannot read /no/such/file: No such file or directory"


def test_stats_come_on_stderr_also_when_quiet(small: pathlib.Path) -> None:
    """The speed with its conditions; there is no seed."""
    result = invoke("score", "-m", small, "zzz", "--stats", "--quiet")
    first, second, *others = result.stderr.splitlines()
    assert first.startswith(f"model {small}, fp32 on cpu, ")
    assert second.startswith("scored 3 tokens in ")
    assert all(line.startswith("peak memory ") for line in others)
