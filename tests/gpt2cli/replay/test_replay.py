"""Claims about `gpt2 replay`, in this process: what is the same, what differs, what is refused."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.gpt2cli.runner import error_line, invoke, stdin_of
from tests.model_folders import ModelFolders

Record = dict[str, Any]
_CPU = ("--threads", "1")


@pytest.fixture(scope="module")
def model(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


@pytest.fixture
def replay(tmp_path: pathlib.Path) -> Callable[..., list[Record]]:
    """Return a function that replays records and gives the verdicts, which tell the exit code."""

    def run(records: Sequence[Mapping[str, Any] | str], *options: str) -> list[Record]:
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        (tmp_path / "records.jsonl").write_text("\n".join(lines), encoding="utf-8")
        result = invoke("replay", tmp_path / "records.jsonl", "--json", "-q", *_CPU, *options)
        verdicts = [json.loads(line) for line in result.stdout.splitlines()]
        same = all(verdict["same"] for verdict in verdicts)
        assert (result.exit_code, result.stderr) == (0 if same else 1, "")
        return verdicts

    return run


def take(command: str, *arguments: str | os.PathLike[str], stdin: str = "") -> list[Record]:
    """Return the records that a command writes."""
    with stdin_of(stdin.encode()):
        result = invoke(command, *arguments, "-q", "--device", "cpu", *_CPU)
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def record(model: pathlib.Path) -> Record:
    """Return the record of a short text."""
    [record] = take("generate", "-m", model, "ab", "--json", "-n", "9", "--seed", "5")
    return record


OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"greedy": True, "samples": 2},
    {"samples": 3, "temperature": 1.5, "top_k": 0, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.9},
    {"repetition_penalty": 1.2, "presence_penalty": 1, "frequency_penalty": -1, "seed": 2**53 - 1},
    {"top_n_sigma": 2, "xtc_probability": 0.5, "xtc_threshold": 0.01, "repeat_last_n": 4},
    {
        **{"dry_multiplier": 2, "dry_base": 1.5, "dry_allowed_length": 1},
        "dry_sequence_breaker": ["e", " "],
    },
    {"no_repeat_ngram": 2, "logit_bias": {"5": 3.5, "a": -2}, "ban": ["b", "\n"], "logprobs": 2},
    {"beams": 3, "samples": 2, "length_penalty": 0.5, "max_new_tokens": 5},
    {"stop": ["a", "\n"], "min_new_tokens": 3, "ignore_eos": True},
    {"stop_token": list(range(9, 120)), "stop": ["b"], "include_stop": True},
    {"overflow": "slide", "max_new_tokens": 60, "ignore_eos": True},
    {"prompt": "xyz" * 40, "overflow": "slide"},
    {"overflow": "error", "allow_special": True, "prompt": "a<|endoftext|>b"},
    {"choice": ["cab", "bac"]},
    {"regex": "[ab]+c"},
    {"json_schema": {"type": "object", "properties": {"é": {"type": "integer"}}}},
    {"prompt": "", "max_new_tokens": 0},
    {"max_time": 3600},
    {"prompt": "abc", "heal": True, "no_repeat_ngram": 1, "ban": ["b"]},
)


def test_the_records_of_a_batch_are_the_same_with_any_options(
    model: pathlib.Path, replay: Callable[..., list[Record]]
) -> None:
    """Of each option once, all side by side; what records hold are the options in effect."""
    lines = [json.dumps({"prompt": "ab", "max_new_tokens": 12, **options}) for options in OPTIONS]
    records = take("batch", "--jsonl", "-m", model, stdin="\n".join(lines))
    assert {r["finish_reason"] for r in records} <= {"length", "stop", "context"}
    beside = {"prompt", "samples", "logprobs", "seed"}
    for each in records:
        asked = {"max_new_tokens": 12, **OPTIONS[each["index"]]}
        assert each["options"] == {k: v for k, v in asked.items() if k not in beside}
    verdicts = replay(records)
    assert [v["same"] for v in verdicts] == [True] * len(records)
    places = [(each["index"], each["sample"]) for each in records]
    assert [(v["index"], v["sample"]) for v in verdicts] == places


def test_the_lines_of_openais_batches_are_the_same_also_of_prompts_as_ids(
    model: pathlib.Path, replay: Callable[..., list[Record]]
) -> None:
    """One line answers all that a request asks for; a space at the begin of a text stays there."""
    spaces = {"logit_bias": {" ": 100}, "max_tokens": 2}
    bodies = [{"prompt": [[5, 6], [7]], "n": 2, **spaces}, {"prompt": "a", **spaces}, {"foo": 1}]
    lines = [{"custom_id": "a", "url": "/v1/completions", "body": body} for body in bodies]
    records = take("batch", "--jsonl", "-m", model, stdin="\n".join(map(json.dumps, lines)))
    choices = records[0]["response"]["body"]["choices"]
    assert {choice["text"] for choice in choices} == {"  "}
    *compared, refused = replay(records)
    assert [v["same"] for v in compared] == [True] * 5
    assert refused["reason"] == "it is the record of an error"


def test_each_option_of_a_prompt_is_recorded() -> None:
    """But the seed, which has a key of its own, and what changes no text."""
    from gpt2cli.config import OF_A_PROMPT
    from gpt2cli.declarations import options_of
    from gpt2cli.recorded import _OPTIONS

    known = {option.field for group in OF_A_PROMPT for option in options_of(group)}
    assert known - _OPTIONS.keys() == {"seed", "samples", "logprobs"}
    assert known >= _OPTIONS.keys()
    assert {name for options in OPTIONS for name in options} | {"max_new_tokens"} >= known


@pytest.mark.parametrize(("options", "foxes"), [([], 110), (["--overflow", "slide"], 190)])
def test_the_records_of_a_chat_are_the_same(
    starter_folder: pathlib.Path,
    replay: Callable[..., list[Record]],
    options: list[str],
    foxes: int,
) -> None:
    """Each by itself: what was read before the reply, and what was stepped, also after drops."""
    long = f"A fox {'and a fox ' * foxes}\n"
    script = f"Hi\nWho?\n/undo\nOh\n/regen\n{long}{long}"
    made = take(
        "chat", "-m", starter_folder, "--json", "-n", "7", "--seed", "3", *options, stdin=script
    )
    assert len(made) == 6
    assert [len(each["context"]["ids"]) for each in made[:3]] == [1, 3, 3]
    assert all(v["same"] for v in replay(made[::-1]))
    assert len(replay(made, "--index", "1")) == 3


def test_an_interrupted_text_is_compared_as_far_as_it_goes(
    record: Record, replay: Callable[..., list[Record]]
) -> None:
    """Its record tells how many tokens there were."""
    cut = record | {"finish_reason": "interrupted", "completion_tokens": 4}
    short = {"completion": record["completion"][:2]}
    assert [v["same"] for v in replay([cut | short, cut | {"completion": "?"}])] == [True, False]


def test_a_text_that_ended_by_time_is_compared_by_its_number_of_tokens(
    model: pathlib.Path, record: Record, replay: Callable[..., list[Record]]
) -> None:
    """However fast this machine is; and one that had time left as if it had no limit."""
    late = take("generate", "-m", model, "ab", "--json", "--max-time", "1e-9", "--seed", "5")
    assert (late[0]["finish_reason"], late[0]["completion_tokens"]) == ("time", 1)
    left = record | {"options": {**record["options"], "max_time": 1e-9}}
    more = late[0] | {"completion_tokens": 3}
    assert [v["same"] for v in replay([*late, left, more])] == [True, True, False]


def test_it_says_where_texts_part_and_the_most_likely_reason(
    record: Record, replay: Callable[..., list[Record]]
) -> None:
    """A change of versions before all else."""
    text = record["completion"]
    other = record | {"completion": text[:3] + "#" + text[4:]}
    older = {"versions": {"gpt2": "0.0.1", "onnxruntime": record["versions"]["onnxruntime"]}}
    longer, shorter = {"completion": text + "x"}, {"completion": text[:-1]}
    ended = record | {"finish_reason": "stop"}
    tokens = other | {"prompt_tokens": 77}
    changes = [other, other | older, record | longer, record | shorter, ended, tokens]
    verdicts = replay(changes)
    assert [v["same"] for v in verdicts] == [False] * 6
    assert [v.get("position") for v in verdicts] == [3, 3, len(text), len(text) - 1, None, 3]
    assert (verdicts[0]["recorded"][3], verdicts[0]["now"][3]) == ("#", text[3])
    reasons = [v["reason"] for v in verdicts]
    assert reasons[0] == "most likely by another kind of processor, or the record was changed"
    assert reasons[1] == "most likely since gpt2 was 0.0.1 and is 0.1.0"
    assert reasons[4].startswith("it ended by stop, now by length; most likely by")
    assert reasons[5] == "the prompt had 77 tokens, now 1: another tokenizer"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fingerprint": "0" * 16}, "has other weights: their fingerprint is"),
        ({"precision": "int8"}, "expected fp32, the precision of this model folder, found int8"),
        ({"precision": "fp16"}, "it was made in fp16, "),
        ({"device": "cuda:0"}, "cuda:0: "),
        ({"device": "tpu"}, "device: expected auto, cpu, cuda or cuda:N, found 'tpu'"),
        ({"model": "./nowhere"}, "there is no such folder"),
        ({"revision": "main"}, "is not a hub model"),
        ({"options": ..., "versions": ...}, "it has no options, versions: not a record of"),
        ({"options": {"top_z": 3}}, "unknown option top_z"),
        ({"options": {"top_p": 3}}, "top_p: expected a number between 0 and 1, found 3"),
        ({"options": {"beams": 2}, "finish_reason": "interrupted"}, "a beam search that was inter"),
        ({"options": {"beams": 2, "max_time": 1}}, "a beam search that had a limit of time"),
        ({"finish_reason": "error", "seed": None}, "it is the record of an error"),
        ({"sample": -1}, "it has another sample than any record"),
        ({"seed": 2**60}, "it has another seed than any record"),
        ({"precision": "fp99"}, "it has another precision than any record"),
        ({"adapters": [3]}, "it has another adapters than any record"),
        ({"context": [1]}, '"context" is not what any record has'),
        ({"context": {"ids": [[1, -1]], "kept": 0, "ends": []}}, '"context" is not what'),
        ({"context": {"ids": [[], [1, 2]], "kept": 0, "ends": []}}, '"context" is not what'),
        ({"context": {"ids": [[999]], "kept": 0, "ends": []}}, "not one of this model"),
        ({"prompt": "a" * 99}, "tokens, the model takes 33"),
    ],
)
def test_what_cannot_be_compared_is_named(
    record: Record, replay: Callable[..., list[Record]], changes: Record, reason: str
) -> None:
    """And the others are compared."""
    changed = {k: v for k, v in (record | changes).items() if v is not ...}
    refused, same = replay([changed, record])
    assert (refused["same"], same["same"]) == (None, True)
    assert reason in refused["reason"]


def test_lines_that_are_no_records_are_named(
    record: Record, replay: Callable[..., list[Record]]
) -> None:
    """By their numbers; blank ones are skipped."""
    verdicts = replay(["{broken", "", "[]", '{"index": 7}', json.dumps(record)])
    assert [(v["line"], v["same"]) for v in verdicts] == [
        (1, None),
        (3, None),
        (4, None),
        (5, True),
    ]
    reasons = [v["reason"].split(": ")[0] for v in verdicts[:3]]
    assert reasons[:2] == ["the line is not JSON", "the line is not a JSON object"]


def test_the_lines_for_people(record: Record) -> None:
    """From stdin; the sum of them is a note."""
    lines = [record, record | {"completion": "x", "sample": 1}, {"index": 3}, "no"]
    text = "\n".join(json.dumps(line) for line in lines)
    with stdin_of(text.encode()):
        result = invoke("replay", "-", *_CPU)
    found = [line.split(":")[:2] for line in result.stdout.splitlines()]
    expected = [["0", " same"], ["0 sample 1", " differs at character 0"]]
    expected += [["3", " not compared"], ["line 4", " not compared"]]
    assert (result.exit_code, found) == (1, expected)
    assert result.stderr == "gpt2: 4 records: 1 same, 1 differ, 2 not compared\n"


def test_a_model_that_has_moved_is_named(
    record: Record, model: pathlib.Path, replay: Callable[..., list[Record]]
) -> None:
    """By the user; it has the same weights."""
    moved = record | {"model": "/no/such"}
    assert [v["same"] for v in replay([moved])] == [None]
    assert [v["same"] for v in replay([moved], "--model", str(model))] == [True]


@pytest.mark.parametrize("text", ["", "\n", '{"index": 1}'])
def test_no_record_is_an_error(tmp_path: pathlib.Path, text: str) -> None:
    """Of none at all, or of that index."""
    (tmp_path / "records").write_text(text)
    result = invoke("replay", tmp_path / "records", "--index", "3")
    assert (result.exit_code, error_line(result)) == (1, "there is no record with the index 3")
    gone = error_line(invoke("replay", tmp_path / "gone"))
    assert gone == f"cannot read {tmp_path / 'gone'}: No such file or directory"


def test_the_answers_of_a_server_are_replayed(
    record: Record, replay: Callable[..., list[Record]]
) -> None:
    """Whole, each of its choices, and as a stream, whose last pieces have the records."""
    answer = {"id": "x", "choices": [{"gpt2": record}, {"gpt2": {**record, "seed": 6}}]}
    begun = {"choices": [{"index": 0, "text": "a"}]}
    stream = [f"data: {json.dumps(one)}" for one in (begun, {"choices": [{"gpt2": record}]})]
    verdicts = replay([answer, *stream, "", "data: [DONE]"])
    assert [verdict["line"] for verdict in verdicts] == [1, 1, 3]
    assert [verdict["same"] for verdict in verdicts] == [True, False, True]


def test_an_answer_without_records_has_nothing_to_replay(tmp_path: pathlib.Path) -> None:
    """As that of another server."""
    (tmp_path / "answer").write_text('{"choices": [{"text": "x"}, 1]}')
    assert error_line(invoke("replay", tmp_path / "answer")) == "there is no record"
