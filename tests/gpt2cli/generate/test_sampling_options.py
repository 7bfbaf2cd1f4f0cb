"""Claims about the options that choose the next token, in `gpt2 generate` and `gpt2 batch`."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from tests.gpt2cli.batch.batches import Record, read, run, write
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder: 33 positions, each z is a token."""
    return model_folders()


def complete(model: pathlib.Path, *options: str, prompt: str = PROMPT) -> str:
    """Return a completion of the prompt, by default a greedy one of 60 tokens."""
    usual = ("-m", model, "-q", "--no-echo", "--greedy", "-n", "60")
    result = invoke("generate", prompt, *usual, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout[:-1]


@pytest.fixture(scope="module")
def story(starter_folder: pathlib.Path) -> str:
    """Return the greedy completion."""
    return complete(starter_folder)


# --ban


@pytest.mark.parametrize(("place", "length"), [(0, 1), (1, 12), (2, 5), (7, 2), (30, 5)])
def test_a_banned_text_does_not_appear(
    starter_folder: pathlib.Path, story: str, place: int, length: int
) -> None:
    """Wherever it stands in its tokens; up to where it would have come the text is the same."""
    ban = story[place : place + length]
    completion = complete(starter_folder, "--ban", ban)
    assert ban not in completion
    kept = story.index(ban)
    assert completion != story and not completion.startswith(story[: kept + length])


def test_a_banned_text_is_not_completed_after_the_prompt(
    starter_folder: pathlib.Path, story: str
) -> None:
    """Its beginning may stand there."""
    completion = complete(starter_folder, "--ban", f"time{story[:2]}")
    assert not completion.startswith(story[:2])


def test_several_texts_are_banned_with_escapes(starter_folder: pathlib.Path) -> None:
    r"""--ban '\n' leaves one line; on its own a backslash is one."""
    whole = complete(starter_folder, "-n", "256")
    assert "\n" in whole and "," in whole
    completion = complete(starter_folder, "-n", "256", "--ban", r"\n", "--ban", ",")
    assert "\n" not in completion and "," not in completion
    assert complete(starter_folder, "--ban", r"\q") == complete(starter_folder)


def test_where_all_is_forbidden_the_text_ends_with_an_error(small: pathlib.Path) -> None:
    """Each token once: there are 288 beside end of text, which may not come yet."""
    result = invoke(
        *("generate", "z", "-m", small, "--no-repeat-ngram", "1", "--overflow", "slide"),
        *("-n", "400", "--min-new-tokens", "400", "-q"),
    )
    assert result.exit_code == 1
    assert result.stderr == (
        "gpt2: error: every token is forbidden here; relax --ban, --no-repeat-ngram, "
        "--min-new-tokens, --choice, --regex or --json-schema\n"
    )
    assert len(result.stdout) > 100


# --logit-bias


def test_a_bias_of_100_makes_a_token_come_and_minus_100_keeps_it_away(small: pathlib.Path) -> None:
    """By its text, and by its id."""
    tokens = json.loads((small / "tokenizer.json").read_text())["model"]["vocab"]
    for token in ("z", str(tokens["z"])):
        assert complete(small, "--logit-bias", f"{token}=100", "-n", "5") == "zzzzz"
        both = ("--logit-bias", "y=100", "--logit-bias", f"{token}=100")
        assert "z" not in complete(small, *both, "--logit-bias", f"{token}=-100", "-n", "5")


@pytest.mark.parametrize(("given", "text"), [("==100", "="), (r"\n=100", "\n"), ("\\\\=1e2", "\\")])
def test_the_last_equals_sign_parts_token_and_bias(
    small: pathlib.Path, given: str, text: str
) -> None:
    """And the token may be written with an escape."""
    assert complete(small, "--logit-bias", given, "-n", "3") == text * 3


@pytest.mark.parametrize("token", ["zz", "289", "99999999999999999999"])
def test_a_bias_of_no_token_of_the_model_is_a_usage_error(small: pathlib.Path, token: str) -> None:
    """A text of two, an id beyond the last."""
    result = invoke("generate", "x", "-m", small, "--logit-bias", f"{token}=1")
    assert result.exit_code == 2
    assert error_line(result).startswith("--logit-bias: expected an id ")


# Penalties, n-grams, typical-p


def test_ngrams_are_not_repeated(starter_folder: pathlib.Path) -> None:
    """Not in prompt and completion; three words have more than two tokens."""
    prompt = "the cat sat on the mat and the cat sat on the"
    for n, repeats in ((0, True), (3, False)):
        options = ("--no-repeat-ngram", str(n), "-n", "100", "--ignore-eos")
        words = f"{prompt}{complete(starter_folder, *options, prompt=prompt)}".split()[8:]
        runs = list(zip(*(words[i:] for i in range(6)), strict=False))
        assert (len(set(runs)) < len(runs)) is repeats


@pytest.mark.parametrize("option", ["--presence-penalty", "--frequency-penalty"])
def test_penalties_make_what_was_drawn_less_likely(small: pathlib.Path, option: str) -> None:
    """Of two tokens that are pushed alike the other comes after the one; rewarded, it stays."""
    pushed = ("--logit-bias", "y=60", "--logit-bias", "z=60", "-n", "8")
    penalised = complete(small, *pushed, option, "2", prompt="zzzzyyyy")
    assert {"y", "z"} == set(penalised)
    rewarded = complete(small, *pushed, option, "-2", prompt="zzzzyyyy")
    assert len(set(rewarded[1:])) == 1


def test_the_least_typical_p_leaves_nothing_to_chance(starter_folder: pathlib.Path) -> None:
    """The one most typical token: the seed does not matter, yet it is not the likeliest."""
    usual = ("-m", starter_folder, "-q", "--no-echo", "-n", "60", "-k", "0", "--typical-p", "1e-9")
    one, other = (invoke("generate", PROMPT, *usual, "--seed", seed).stdout for seed in "12")
    assert one == other != f"{complete(starter_folder)}\n"


# --min-new-tokens


@pytest.mark.parametrize("least", [0, 1, 5, 12])
def test_the_model_does_not_end_the_text_before_the_minimum(
    small: pathlib.Path, least: int
) -> None:
    """Though it would like nothing better; with the token after it does."""
    tokens = json.loads((small / "tokenizer.json").read_text())["added_tokens"]
    [eos] = [token["id"] for token in tokens if token["content"] == "<|endoftext|>"]
    result = invoke(
        *("generate", "z", "-m", small, "--json", "-n", "12", "--logit-bias", f"{eos}=100"),
        *("--min-new-tokens", str(least)),
    )
    record = json.loads(result.stdout)
    assert record["completion_tokens"] == least
    assert record["finish_reason"] == ("length" if least == 12 else "stop")


def test_stop_sequences_do_not_end_the_text_before_the_minimum(
    starter_folder: pathlib.Path, story: str
) -> None:
    """A letter that stands in the first token, and later again."""
    letter = story.strip()[0]
    stopped = complete(starter_folder, "--stop", letter, "--min-new-tokens", "10")
    assert letter in stopped
    assert story.startswith(f"{stopped}{letter}")


# Batch

OPTIONS: list[tuple[Mapping[str, Any], list[str]]] = [
    ({"typical_p": 0.3, "top_k": 0}, ["--typical-p", "0.3", "-k", "0"]),
    ({"presence_penalty": 1.5}, ["--presence-penalty", "1.5"]),
    ({"frequency_penalty": -1}, ["--frequency-penalty", "-1"]),
    ({"no_repeat_ngram": 1}, ["--no-repeat-ngram", "1"]),
    (
        {"logit_bias": {"e": 5, "262": -2.5, "\n": 3}},
        ["--logit-bias", "e=5", "--logit-bias", "262=-2.5", "--logit-bias", r"\n=3"],
    ),
    ({"ban": ["e", "\n"]}, ["--ban", "e", "--ban", r"\n"]),
    ({"ban": " the"}, ["--ban", " the"]),
    ({"min_new_tokens": 9, "stop": "e"}, ["--min-new-tokens", "9", "-s", "e"]),
]


def test_records_have_the_options_of_the_flags(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Side by side in one batch, each as `generate` does it by its flags, and none as without."""
    seeded: Record = {"prompt": PROMPT, "seed": 8}
    file = write(tmp_path / "in.jsonl", [seeded, *({**seeded, **own} for own, _ in OPTIONS)])
    plain, *records = run(starter_folder, file, "-n", 30)
    for record, (own, flags) in zip(records, OPTIONS, strict=True):
        usual = ("-m", starter_folder, "-n", "30", "--json", "--seed", "8")
        [single] = read(invoke("generate", PROMPT, *usual, *flags))
        assert record["completion"] == single["completion"] != plain["completion"], own
        assert record["completion_tokens"] == single["completion_tokens"]


def test_flags_of_a_batch_hold_for_every_record_that_says_nothing_else(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """An empty list or object is something else."""
    records: list[Record] = [
        *({"prompt": "z"}, {"prompt": "z", "ban": []}, {"prompt": "z", "logit_bias": {}}),
        {"prompt": "z", "ban": "y", "logit_bias": {"x": 100}},
    ]
    flags = ("--greedy", "-n", "3", "--ban", "z", "--logit-bias", "z=100", "--logit-bias", "y=90")
    done = run(small, write(tmp_path / "in.jsonl", records), *flags)
    completions = [record["completion"] for record in done]
    assert [completions[i] for i in (0, 1, 3)] == ["yyy", "zzz", "xxx"]
    assert "z" not in completions[2]


def test_a_bias_of_no_token_makes_a_record_an_error(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The others run."""
    records: list[Record] = [{"prompt": "z", "logit_bias": {token: 1}} for token in ("zz", "z")]
    file = write(tmp_path / "in.jsonl", records)
    result = invoke("batch", file, "-m", small, "-q", "-n", "2")
    bad, good = read(result)
    assert result.exit_code == 1
    assert bad["error"].startswith("logit_bias: expected an id or a text of one token, found 'zz'")
    assert "error" not in good


def test_a_run_is_resumed_with_the_same_bans_and_biases_only(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """They are kept as they were given."""
    file = write(tmp_path / "in.jsonl", [{"prompt": "z"}, {"prompt": "zz"}])
    out = tmp_path / "out"
    flags = ("batch", file, "-m", small, "-q", "-n", "2", "-o", out, "--ban", r"\n")
    assert invoke(*flags, "--logit-bias", "z=1").exit_code == 0
    whole = out.read_bytes()
    out.write_bytes(whole[:-10])
    assert invoke(*flags, "--logit-bias", "z=1", "--resume").exit_code == 0
    assert out.read_bytes() == whole
    refused = invoke(*flags, "--logit-bias", "z=2", "--resume")
    assert refused.exit_code == 2
    assert "logit_bias" in error_line(refused)
