"""Claims about --beams and --logprobs, in `gpt2 generate` and `gpt2 batch`."""

import json
import math
import pathlib
from typing import Any

import pytest

from tests.gpt2cli.batch.batches import Record, read, run, write
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

PROMPT = "Once upon a time"
LIMIT = 33  # n_positions of the small model


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder: each z is a token."""
    return model_folders()


def records_of(model: pathlib.Path, *options: str, prompt: str = PROMPT) -> list[Record]:
    """Return the records of a run that must succeed in silence."""
    result = invoke("generate", prompt, "-m", model, "-q", "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return read(result)


def total_of(record: Record) -> float:
    """Return the sum of a record's log-probabilities."""
    return math.fsum(token["logprob"] for token in record["logprobs"])


# --beams


def test_beams_find_likelier_texts_than_greedy_steps(starter_folder: pathlib.Path) -> None:
    """Of equal length: four beams beat one."""
    options = ("-n", "20", "--ignore-eos", "--logprobs", "0")
    prompt = "The old man"
    [greedy] = records_of(starter_folder, "--greedy", *options, prompt=prompt)
    [searched] = records_of(starter_folder, "--beams", "4", *options, prompt=prompt)
    assert total_of(searched) > total_of(greedy)


def test_a_search_draws_nothing(small: pathlib.Path) -> None:
    """Temperature, top-k, top-p and the seed make no difference."""
    texts = {
        records_of(small, "--beams", "3", "-n", "8", *options)[0]["completion"]
        for options in ([], ["--seed", "1"], ["-t", "5", "--seed", "2"], ["-k", "1", "-p", "0.1"])
    }
    assert len(texts) == 1


def test_samples_of_a_search_are_its_best(starter_folder: pathlib.Path) -> None:
    """All different, from the best on; the first is the one that comes alone."""
    options = ("--beams", "4", "-n", "8", "--ignore-eos", "--logprobs", "0")
    records = records_of(starter_folder, "-N", "3", *options)
    totals = [total_of(record) for record in records]
    assert totals == sorted(totals, reverse=True)
    assert len({record["completion"] for record in records}) == 3
    [alone] = records_of(starter_folder, *options)
    assert alone["completion"] == records[0]["completion"]


def test_a_search_prints_text_with_its_prompt(starter_folder: pathlib.Path) -> None:
    """As any completion, and several with a line between."""
    result = invoke("generate", "Once", "-m", starter_folder, "--beams", "2", "-N", "2", "-n", "4")
    assert result.exit_code == 0
    first, separator, second, end = result.stdout.split("\n")
    assert (first[:4], separator, second[:4], end) == ("Once", "---", "Once", "")


def test_a_search_that_met_the_models_limit_is_told_no_way_on(small: pathlib.Path) -> None:
    """It cannot slide."""
    result = invoke("generate", "z", "-m", small, "--beams", "2", "--ignore-eos")
    assert result.stderr == f"gpt2: stopped at the model's limit of {LIMIT} tokens\n"


def test_a_record_searches_as_generate_does(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Side by side with others in one batch, each as by its flags."""
    own: list[tuple[dict[str, Any], list[str]]] = [
        ({"beams": 3}, ["--beams", "3"]),
        ({"seed": 3}, ["--seed", "3"]),
        ({"beams": 2, "length_penalty": -2}, ["--beams", "2", "--length-penalty", "-2"]),
        ({"beams": 4, "repetition_penalty": 2}, ["--beams", "4", "--repetition-penalty", "2"]),
        ({"seed": 5, "logprobs": 1}, ["--seed", "5", "--logprobs", "1"]),
        ({"beams": 2, "stop": "a"}, ["--beams", "2", "-s", "a"]),
    ]
    records = [{"prompt": PROMPT, "seed": 1, **fields} for fields, _ in own]
    done = run(starter_folder, write(tmp_path / "in.jsonl", records), "-n", "12")
    assert len(done) == len(own)
    for record, (_, flags) in zip(done, own, strict=True):
        [single] = records_of(starter_folder, "-n", "12", "--seed", "1", *flags)
        assert {**record, "index": 0} == single


def test_beams_hold_for_all_records(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Also more of them than slots would be chosen; a record may say otherwise."""
    file = write(tmp_path / "in.jsonl", [{"prompt": "z"}, {"prompt": "zz", "beams": 1}])
    many, one = run(small, file, "--beams", "40", "-n", "4", "--seed", "1")
    [single] = records_of(small, "--beams", "40", "-n", "4", prompt="z")
    assert many["completion"] == single["completion"]
    [drawn] = records_of(small, "-n", "4", "--seed", "2", prompt="zz")
    assert one["completion"] == drawn["completion"]


def test_more_beams_than_the_batch_size_are_searched_all_the_same(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """By flag and by record, whatever the batch size: it changes the speed alone."""
    wide: Record = {"prompt": "The king", "beams": 20}
    records: list[Record] = [{"prompt": "The fox"}, wide, {"prompt": "The"}]
    file = write(tmp_path / "in.jsonl", records)
    runs = [
        run(starter_folder, file, "--beams", 3, "-n", 4, "--seed", 1, "--batch-size", size)
        for size in (1, 2, 32)
    ]
    assert runs[0] == runs[1] == runs[2]


# --logprobs


def test_logprobs_are_those_of_the_tokens(starter_folder: pathlib.Path) -> None:
    """As many as tokens, whose texts make the completion; at temperature 0 the best come first."""
    [record] = records_of(starter_folder, "--greedy", "-n", "20", "--logprobs", "3")
    tokens = record["logprobs"]
    assert list(record)[-1] == "logprobs"
    assert len(tokens) == record["completion_tokens"] == 20
    assert "".join(token["text"] for token in tokens) == record["completion"]
    for token in tokens:
        values = [other["logprob"] for other in token["alternatives"]]
        assert len(values) == 3
        assert values == sorted(values, reverse=True)
        assert {**token, "alternatives": None} == {**token["alternatives"][0], "alternatives": None}


def test_logprobs_are_of_the_models_own_distribution(starter_folder: pathlib.Path) -> None:
    """However the next token is chosen: one that only a bias made possible is as unlikely."""
    [plain] = records_of(starter_folder, "--greedy", "-n", "1", "--logprobs", "20")
    [forced] = records_of(
        starter_folder, "-n", "1", "--logprobs", "20", "-t", "5", "--logit-bias", "q=100",
        "--ban", plain["completion"], "--repetition-penalty", "9",
    )  # fmt: skip
    assert forced["completion"] == "q"
    assert forced["logprobs"][0]["alternatives"] == plain["logprobs"][0]["alternatives"]
    assert forced["logprobs"][0]["logprob"] < -5


@pytest.mark.parametrize("top", ["0", "2"])
def test_logprobs_are_those_of_score(starter_folder: pathlib.Path, top: str) -> None:
    """The same tokens after the same prompt, scored as one text; the model knows BOS there too."""
    [record] = records_of(starter_folder, "--greedy", "-n", "9", "--logprobs", top, prompt="")
    result = invoke("score", record["completion"], "-m", starter_folder, "--json", "--top", top)
    [scored] = read(result)
    ids = [token["id"] for token in scored["tokens"]]
    assert ids == [token["id"] for token in record["logprobs"]]
    for made, read_again in zip(record["logprobs"], scored["tokens"], strict=True):
        assert made["logprob"] == pytest.approx(read_again["logprob"], abs=1e-5)
        assert made.keys() == read_again.keys()


def test_the_tokens_of_a_stop_sequence_are_told_and_eos_is_not(
    starter_folder: pathlib.Path,
) -> None:
    """Where the text is cut within a token, the token is told all the same."""
    [record] = records_of(starter_folder, "--greedy", "--stop", "e w", "--logprobs", "0")
    assert record["stop_sequence"] == "e w"
    texts = [token["text"] for token in record["logprobs"]]
    assert len(texts) == record["completion_tokens"]
    assert "".join(texts).startswith(record["completion"] + "e w")
    bias = ("--logit-bias", "<|endoftext|>=100", "--allow-special")
    [ended] = records_of(starter_folder, *bias, "--min-new-tokens", "3", "--logprobs", "0")
    assert ended["finish_reason"] == "stop"
    assert len(ended["logprobs"]) == ended["completion_tokens"] == 3


def test_without_the_option_there_are_none(small: pathlib.Path) -> None:
    """Not even the key."""
    assert "logprobs" not in records_of(small, "-n", "2", prompt="z")[0]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["generate", "x"], "--logprobs: expected --json too, whose records hold them"),
        (
            ["batch", "/missing", "--format", "text"],
            "--logprobs: expected --format jsonl, whose records hold them",
        ),
    ],
    ids=["generate", "batch"],
)
def test_logprobs_need_records(command: list[str], expected: str) -> None:
    """Text has no place for them."""
    result = invoke(*command, "-m", "/missing", "--logprobs", "1")
    assert (result.exit_code, error_line(result)) == (2, expected)


@pytest.mark.parametrize("option", [["--beams", "2"], ["--logprobs", "1"]], ids=lambda o: o[0])
def test_a_run_is_resumed_with_the_options_of_its_beginning(
    small: pathlib.Path, tmp_path: pathlib.Path, option: list[str]
) -> None:
    """Else its records would not be those of one run."""
    file = write(tmp_path / "in.jsonl", [{"prompt": "z"}])
    options = ("-m", small, "-n", "2", "-q", "-o", tmp_path / "out")
    assert invoke("batch", file, *options, *option).exit_code == 0
    written = json.loads((tmp_path / "out").read_text())
    result = invoke("batch", file, *options, "--resume")
    assert result.exit_code == 2
    assert f"begun with {option[0].removeprefix('--')} {option[1]}" in error_line(result)
    assert invoke("batch", file, *options, *option, "--resume").exit_code == 0
    assert json.loads((tmp_path / "out").read_text()) == written
