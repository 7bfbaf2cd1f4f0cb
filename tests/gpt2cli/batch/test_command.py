"""Claims about `gpt2 batch`, in this process: records, bad ones, formats, notes, files."""

import json
import pathlib
from collections.abc import Callable

import pytest
from typer.testing import Result

from tests.gpt2cli.batch.batches import Record, read, write
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

Batch = Callable[..., Result]


@pytest.fixture
def batch(model_folders: ModelFolders, tmp_path: pathlib.Path) -> Batch:
    """Return the function that runs a batch over bytes, on the smallest model or another.

    It has 33 positions, and each z is a token.
    """

    def run_over(
        data: bytes, *options: object, name: str = "lines", model: pathlib.Path | None = None
    ) -> Result:
        (tmp_path / name).write_bytes(data)
        folder = model or model_folders()
        return invoke("batch", tmp_path / name, "-m", folder, *map(str, options))

    return run_over


# Records and their options


OWN: list[tuple[Record, list[str]]] = [
    ({"greedy": True}, ["--greedy"]),
    ({"temperature": 1.5, "top_k": 3, "seed": 9}, ["-t", "1.5", "-k", "3", "--seed", "9"]),
    ({"top_p": 0.5}, ["-p", "0.5"]),
    ({"min_p": 0.2, "top_k": 0}, ["--min-p", "0.2", "-k", "0"]),
    ({"typical_p": 0.3, "top_k": 0}, ["--typical-p", "0.3", "-k", "0"]),
    ({"repetition_penalty": 3}, ["--repetition-penalty", "3"]),
    ({"presence_penalty": 1.5}, ["--presence-penalty", "1.5"]),
    ({"frequency_penalty": -1}, ["--frequency-penalty", "-1"]),
    ({"no_repeat_ngram": 1}, ["--no-repeat-ngram", "1"]),
    (
        {"logit_bias": {"e": 5, "262": -2.5, "\n": 3}},
        ["--logit-bias", "e=5", "--logit-bias", "262=-2.5", "--logit-bias", r"\n=3"],
    ),
    ({"ban": ["e", "\n"]}, ["--ban", "e", "--ban", r"\n"]),
    ({"max_new_tokens": 0}, ["-n", "0"]),
    ({"min_new_tokens": 9, "stop": "e"}, ["--min-new-tokens", "9", "-s", "e"]),
    ({"stop": ["a", "z"]}, ["-s", "a", "-s", "z"]),
    ({"max_new_tokens": 600, "overflow": "error"}, ["-n", "600", "--overflow", "error"]),
    ({"beams": 3}, ["--beams", "3"]),
    ({"beams": 2, "length_penalty": -2}, ["--beams", "2", "--length-penalty", "-2"]),
    ({"logprobs": 1, "seed": 3}, ["--logprobs", "1", "--seed", "3"]),
]


def test_each_record_has_its_own_options(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Side by side in one batch, each as `generate` does it by its flags, and none as without."""
    seeded: Record = {"prompt": "Once upon a time", "seed": 8}
    file = write(tmp_path / "in.jsonl", [seeded, *({**seeded, **record} for record, _ in OWN)])
    plain, *done = read(invoke("batch", file, "-m", starter_folder, "-n", "30"))
    usual = ("-m", starter_folder, "-n", "30", "--json", "--seed", "8")
    for record, (_, flags) in zip(done, OWN, strict=True):
        result = invoke("generate", "Once upon a time", *usual, *flags)
        if result.exit_code:
            told = error_line(result).replace("--max-new-tokens", "max_new_tokens")
            assert record["error"] == told
        else:
            [single] = read(result)
            assert {**record, "index": 0} == single
            assert record["completion"] != plain["completion"], flags


@pytest.mark.parametrize("written", ["jsonl", "text"])
def test_what_was_left_out_of_prompts_is_told(batch: Batch, written: str) -> None:
    """In the record and the summary; where there are no records, of each. Half of 33 stay."""
    data = f"z\n{'z' * 40}\n".encode()
    result = batch(data, "-n", 1, "--overflow", "slide", "--format", written)
    *notes, summary = result.stderr.splitlines()
    assert summary.startswith("gpt2: 2 records, 1 of them with only the end of a long prompt, ")
    if written == "text":
        told = "left out 24 of the prompt's 40 tokens and kept its end: the model takes 33"
        assert notes == [f"gpt2: record 1: {told}"]
    else:
        counts = [record.get("truncated_prompt_tokens") for record in read(result)]
        assert (notes, counts) == ([], [None, 24])


def test_a_space_at_the_end_of_prompts_is_hinted_at_once(batch: Batch) -> None:
    """Of the first that has one; not when quiet."""
    for flags, hints in (([], 1), (["-q"], 0)):
        result = batch(b"z\nz \nz \n", "-n", 1, *flags)
        told = [line for line in result.stderr.splitlines() if "ends with a space" in line]
        assert [line.startswith("gpt2: record 1: ") for line in told] == [True] * hints


def test_a_file_named_jsonl_holds_records_and_others_do_if_told(batch: Batch) -> None:
    line = '{"prompt": "z"}'
    for name, options, prompt in (
        ("in.jsonl", [], "z"),
        ("in.txt", ["--jsonl"], "z"),
        ("in.txt", [], line),
        ("in.txt", ["--null"], f"{line}\n"),
    ):
        [record] = read(batch(f"{line}\n".encode(), "-n", 0, *options, name=name))
        assert record["prompt"] == prompt


# Bad records


def test_bad_records_become_errors_and_the_others_run(batch: Batch) -> None:
    """Of every kind; the exit code is 1 and the summary counts them."""
    data = (
        b'{"prompt": "z"}\n{bad\ncaf\xe9\n\n{"prompt": "z", "tempo": 1}\n'
        b'{"prompt": "z", "top_p": NaN}\n{"prompt": "\\ud800", "id": "\\ud800"}\n'
        + json.dumps({"prompt": "z" * 34}).encode()
        + b'\n{"prompt": "z", "top_k": true}\n{"prompt": "z", "id": 0}\n'
    )
    result = batch(data, "-n", 1, "--ignore-eos", name="in.jsonl")
    assert result.exit_code == 1
    records = read(result)
    assert [record["index"] for record in records] == list(range(9))
    assert [i for i, r in enumerate(records) if "error" not in r] == [0, 8]
    assert {r["finish_reason"] for r in records[1:8]} == {"error"}
    assert result.stderr.startswith("gpt2: 9 records, 7 errors among them, 2 tokens in ")
    assert result.stderr.count("\n") == 1


def test_an_input_without_records_gives_none(batch: Batch) -> None:
    result = batch(b"")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("gpt2: 0 records, 0 tokens in ")


# Statistics and usage


def test_stats_tell_batch_size_seed_and_rates(batch: Batch) -> None:
    options = ("--stats", "-q", "--batch-size", 3, "--seed", 77, "-n", 4, "--ignore-eos")
    result = batch(b"z\nz\nzz\n", *options)
    assert len(read(result)) == 3
    told = result.stderr.splitlines()
    assert told[0] == "batch size 3"
    assert "seed 77" in told
    assert any(line.startswith("prefill 3 tokens in ") for line in told)  # z is prefilled once
    assert any(line.startswith("decode 9 tokens in ") and "tokens/s" in line for line in told)


def test_a_random_seed_is_told_by_stats_and_records(batch: Batch) -> None:
    result = batch(b"z\nzz\n", "--stats", "-n", 9)
    first, second = read(result)
    assert f"seed {first['seed']}" in result.stderr.splitlines()
    assert second["seed"] == first["seed"] + 1
    assert read(batch(b"z\nzz\n", "-n", 9, "--seed", first["seed"])) == [first, second]


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: pathlib.Path) -> None:
    for path, reason in (tmp_path / "none", "No such file"), (tmp_path, "Is a directory"):
        result = invoke("batch", path, "-m", "no/such")
        assert result.exit_code == 1
        assert error_line(result).startswith(f"cannot read {path}: {reason}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--batch-size", "257"], "--batch-size: expected"),
        (["--batch-size", "many"], "--batch-size: expected"),
        (["--file", "x"], "--file: expected no FILE argument together with it"),
        (["--resume"], "--resume: expected --output FILE"),
        (["--resume", "-o", "-"], "--resume: - is not a file that can be continued"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_before_a_model_is_looked_for(
    batch: Batch, options: list[str], told: str
) -> None:
    result = batch(b"z\n", *options, model=pathlib.Path("no/such"))
    assert result.exit_code == 2
    assert error_line(result).startswith(told)


# Output to a file


def test_a_file_gets_what_stdout_would(batch: Batch, tmp_path: pathlib.Path) -> None:
    """Nothing goes to stdout; an older file is replaced; the journal stands beside it."""
    out = tmp_path / "out"
    out.write_text("old\n" * 100)
    shown = batch(b"z\nzz\n", "--seed", 1, "-n", 9)
    result = batch(b"z\nzz\n", "--seed", 1, "-n", 9, "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_bytes() == shown.stdout.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines", "out", "out.resume.json"]


def test_the_journal_never_overwrites_the_input(batch: Batch, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "other.resume.json"
    result = batch(b"z\n", "-o", tmp_path / "other", name=file.name)
    assert result.exit_code == 2
    assert error_line(result).endswith("is the input")
    assert file.read_text() == "z\n"


def test_a_model_that_cannot_be_had_leaves_the_output_alone(
    batch: Batch, tmp_path: pathlib.Path
) -> None:
    """No journal is begun."""
    out = tmp_path / "out"
    out.write_text("old\n")
    assert batch(b"z\n", "-o", out, model=tmp_path / "no-model").exit_code == 1
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines", "out"]
