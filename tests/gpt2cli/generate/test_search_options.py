"""Claims about --beams and --logprobs, in `gpt2 generate` and `gpt2 batch`."""

import pathlib

import pytest

from tests.gpt2cli.batch.batches import Record, read, run, write
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

PROMPT = "Once upon a time"
LIMIT = 33  # n_positions of the small model


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def records_of(model: pathlib.Path, *options: str, prompt: str = PROMPT) -> list[Record]:
    """Return the records of a run that must succeed in silence."""
    result = invoke("generate", prompt, "-m", model, "-q", "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return read(result)


# --beams


def test_a_search_draws_nothing(small: pathlib.Path) -> None:
    """Temperature, top-k, top-p and the seed make no difference."""
    texts = {
        records_of(small, "--beams", "3", "-n", "8", *options)[0]["completion"]
        for options in ([], ["--seed", "1"], ["-t", "5", "--seed", "2"], ["-k", "1", "-p", "0.1"])
    }
    assert len(texts) == 1


def test_a_search_that_met_the_models_limit_is_told_no_way_on(small: pathlib.Path) -> None:
    result = invoke("generate", "z", "-m", small, "--beams", "2", "--ignore-eos")
    assert result.stderr == f"gpt2: stopped at the model's limit of {LIMIT} tokens\n"


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


def test_logprobs_are_those_of_score(starter_folder: pathlib.Path) -> None:
    """The same tokens after the same prompt, scored as one text; the model knows BOS there too."""
    [record] = records_of(starter_folder, "--greedy", "-n", "9", "--logprobs", "2", prompt="")
    result = invoke("score", record["completion"], "-m", starter_folder, "--json", "--top", "2")
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
    result = invoke(*command, "-m", "/missing", "--logprobs", "1")
    assert (result.exit_code, error_line(result)) == (2, expected)
