"""Claims about `gpt2 bench`, in this process: table, record, options. No claim is about a speed."""

import json
import pathlib

import pytest

from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

_SHORT = ("--rounds", "1", "--batch-size", "1")


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder: n_positions 33."""
    return model_folders()


def test_the_table_has_a_line_for_each_measure(small: pathlib.Path) -> None:
    """Of prompts and sizes that were asked for; stderr is empty where nobody watches."""
    options = ("--prompt-length", "5", "--prompt-length", "33", "--batch-size", "2")
    result = invoke("bench", "-m", small, *_SHORT, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    conditions, table = result.stdout.split("\n\n")
    assert conditions.startswith(f"model {small}, fp32 on cpu, ")
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        ["load", "-", "-", "-"],
        ["first-token", "1", "32", "1"],
        ["prefill", "1", "5", "-"],
        ["prefill", "1", "33", "-"],
        ["decode", "1", "16", "16"],
        ["decode", "2", "16", "16"],
    ]


def test_the_record_has_a_value_for_each_round(small: pathlib.Path) -> None:
    """The usual lengths that fit, and the usual batch sizes."""
    result = invoke("bench", "-m", small, "--rounds", "2", "--threads", "1", "--json", "-q")
    record = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (record["model"], record["threads"], record["rounds"]) == (str(small), 1, 2)
    measured = [
        (m["measure"], m["batch_size"], m["prompt_tokens"], m["new_tokens"])
        for m in record["measures"]
    ]
    assert measured == [
        *(("load", 0, 0, 0), ("first-token", 1, 32, 1), ("prefill", 1, 32, 0)),
        *(("decode", size, 16, 16) for size in (1, 8, 16)),
    ]
    assert all(len(m["rounds"]) == 2 for m in record["measures"])
    assert all(min(m["rounds"]) > 0 for m in record["measures"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--rounds", "0"], "--rounds: expected a whole number 1 or more, found 0"),
        (["--batch-size", "257"], "--batch-size: expected a whole number 1 to 256, found 257"),
        (["--prompt-length", "0"], "--prompt-length: expected a whole number 1 or more"),
        (["--prompt-length", "34"], "--prompt-length: expected 1 to 33, the model's context"),
        (["more"], "more"),
    ],
    ids=" ".join,
)
def test_a_wrong_use_is_told_in_one_line(
    small: pathlib.Path, options: list[str], expected: str
) -> None:
    result = invoke("bench", "-m", small, *options)
    assert result.exit_code == 2
    assert expected in error_line(result)
