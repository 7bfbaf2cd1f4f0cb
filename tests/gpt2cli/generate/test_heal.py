"""Claims about --heal, in `gpt2 generate`, `gpt2 batch` and `gpt2 replay`."""

import json
import pathlib

import pytest

from tests.gpt2cli.batch.batches import Record, read, run, write
from tests.gpt2cli.runner import error_line, invoke

LONG = "She was very surpri"  # ends in " s" "urp" "ri": " surprised" is one token


def complete(model: pathlib.Path, prompt: str, *options: str) -> str:
    """Return what is printed for a prompt, by default greedily."""
    result = invoke("generate", prompt, "-m", model, "-q", "--greedy", "-n", "2", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout[:-1]


@pytest.mark.parametrize(
    ("prompt", "healed"),
    [
        ("Once upon a ti", "Once upon a time,"),
        (LONG, f"{LONG}sed."),
        ("The little ", "The little girl"),
        ("Onc", "Once upon"),  # the whole prompt: BOS is what the model sees
    ],
)
def test_a_prompt_that_ends_within_a_word_goes_on_with_that_word(
    starter_folder: pathlib.Path, prompt: str, healed: str
) -> None:
    """And what the prompt has already is not written again. Without --heal it does not."""
    assert complete(starter_folder, prompt, "--heal").startswith(healed)
    assert not complete(starter_folder, prompt).startswith(healed)


def records_of(model: pathlib.Path, *options: str) -> list[Record]:
    result = invoke("generate", LONG, "-m", model, "-q", "--json", "--heal", "-n", "8", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return read(result)


def test_a_healed_text_is_the_same_alone_in_a_batch_with_a_draft_and_replayed(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its samples differ; records count the prompt whole, and hold what was drawn."""
    options = ("--seed", "4", "-t", "1.2")
    alone = records_of(starter_folder, "-N", "3", *options, "--logprobs", "0")
    texts = [record["completion"] for record in alone]
    assert len(set(texts)) == 3 and all(text.startswith("s") for text in texts)
    assert {record["prompt_tokens"] for record in alone} == {6}
    for record in alone:
        drawn = "".join(token["text"] for token in record["logprobs"])
        assert drawn == " surpri" + record["completion"]
    healed = {"prompt": LONG, "heal": True, "seed": 4, "samples": 3}
    lines: list[Record] = [{"prompt": "x"}, healed]
    file = write(tmp_path / "prompts.jsonl", lines)
    batch = run(starter_folder, file, "-n", "8", "-t", "1.2")[1:]
    assert [record["completion"] for record in batch] == texts
    drafted = records_of(starter_folder, *options, "--draft", "lookup")
    assert drafted[0]["completion"] == texts[0]
    written = write(tmp_path / "records.jsonl", [*alone, *batch])
    replayed = invoke("replay", written, "-q")
    assert (replayed.exit_code, replayed.stdout.count("same")) == (0, 6)


@pytest.mark.parametrize("other", [("--beams", "2"), ("--choice", "a"), ("--regex", "a+")])
def test_what_it_does_not_go_with_is_named(other: tuple[str, str]) -> None:
    result = invoke("generate", "a", "-m", "starter", "--heal", *other)
    assert error_line(result) == f"--heal: expected no {other[0]} together with it"


def test_the_hint_at_a_space_names_it(starter_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """And is not given where it is on."""
    options = ("-m", starter_folder, "-n", "1")
    for heal in (), ("--heal",):
        hinted = invoke("generate", "a ", *options, *heal).stderr
        assert ("without it, or with --heal" in hinted) is (not heal)
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": "a ", "heal": True}))
    assert "space" not in invoke("batch", file, *options).stderr
