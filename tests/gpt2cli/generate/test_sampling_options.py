"""Claims about the options that choose the next token, in `gpt2 generate` and `gpt2 batch`."""

import json
import pathlib

import pytest

from tests.gpt2cli.batch.batches import Record, run, write
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def complete(model: pathlib.Path, *options: str, prompt: str = PROMPT) -> str:
    """Return a completion of the prompt, by default a greedy one of 60 tokens."""
    usual = ("-m", model, "-q", "--no-echo", "--greedy", "-n", "60")
    result = invoke("generate", prompt, *usual, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout[:-1]


@pytest.fixture(scope="module")
def story(starter_folder: pathlib.Path) -> str:
    return complete(starter_folder)


# --ban


@pytest.mark.parametrize(("place", "length"), [(0, 1), (30, 5)])
def test_a_banned_text_does_not_appear(
    starter_folder: pathlib.Path, story: str, place: int, length: int
) -> None:
    """Wherever it stands in its tokens; up to where it would have come the text is the same."""
    ban = story[place : place + length]
    completion = complete(starter_folder, "--ban", ban)
    assert ban not in completion
    kept = story.index(ban)
    assert completion != story and not completion.startswith(story[: kept + length])


def test_several_texts_are_banned_with_escapes(starter_folder: pathlib.Path) -> None:
    r"""--ban '\n' leaves one line; on its own a backslash is one."""
    whole = complete(starter_folder, "-n", "120")
    assert "\n" in whole and "," in whole
    completion = complete(starter_folder, "-n", "120", "--ban", r"\n", "--ban", ",")
    assert "\n" not in completion and "," not in completion
    assert complete(starter_folder, "--ban", r"\q") == complete(starter_folder)


def test_where_all_is_forbidden_the_text_ends_with_an_error(small: pathlib.Path) -> None:
    """Each token once: there are 288 beside end of text, which may not come yet."""
    options = ("--no-repeat-ngram", "1", "--overflow", "slide", "-n", "400", "-q")
    result = invoke("generate", "z", "-m", small, *options, "--min-new-tokens", "400")
    assert result.exit_code == 1
    assert result.stderr == (
        "gpt2: error: every token is forbidden here; relax --ban, --no-repeat-ngram, "
        "--min-new-tokens, --choice, --regex or --json-schema\n"
    )
    assert len(result.stdout) > 100


# --logit-bias


def test_a_bias_of_100_makes_a_token_come_and_minus_100_keeps_it_away(small: pathlib.Path) -> None:
    tokens = json.loads((small / "tokenizer.json").read_text())["model"]["vocab"]
    for token in ("z", str(tokens["z"])):
        assert complete(small, "--logit-bias", f"{token}=100", "-n", "5") == "zzzzz"
        both = ("--logit-bias", "y=100", "--logit-bias", f"{token}=100")
        assert "z" not in complete(small, *both, "--logit-bias", f"{token}=-100", "-n", "5")


def test_a_bias_of_no_token_of_the_model_is_a_usage_error(small: pathlib.Path) -> None:
    result = invoke("generate", "x", "-m", small, "--logit-bias", "zz=1")
    assert result.exit_code == 2
    assert error_line(result).startswith("--logit-bias: expected an id ")


# --min-new-tokens


@pytest.mark.parametrize(("least", "reason"), [("0", "stop"), ("5", "stop"), ("12", "length")])
def test_the_model_does_not_end_the_text_before_the_minimum(
    small: pathlib.Path, least: str, reason: str
) -> None:
    """Though it would like nothing better; with the token after it does."""
    bias = ("--allow-special", "--logit-bias", "<|endoftext|>=100")
    options = ("--json", "-n", "12", "--min-new-tokens", least, *bias)
    made = json.loads(invoke("generate", "z", "-m", small, *options).stdout)
    assert (made["completion_tokens"], made["finish_reason"]) == (int(least), reason)


def test_flags_of_a_batch_hold_for_every_record_that_says_nothing_else(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    records: list[Record] = [
        *({"prompt": "z"}, {"prompt": "z", "ban": []}, {"prompt": "z", "logit_bias": {}}),
        {"prompt": "z", "ban": "y", "logit_bias": {"x": 100}},
    ]
    flags = ("--greedy", "-n", "3", "--ban", "z", "--logit-bias", "z=100", "--logit-bias", "y=90")
    done = run(small, write(tmp_path / "in.jsonl", records), *flags)
    completions = [record["completion"] for record in done]
    assert [completions[i] for i in (0, 1, 3)] == ["yyy", "zzz", "xxx"]
    assert "z" not in completions[2]
