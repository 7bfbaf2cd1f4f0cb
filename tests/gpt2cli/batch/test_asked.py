"""Claims about records in the form of OpenAI's batches, and their answers."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from typer.testing import Result

from tests.gpt2cli.batch.batches import Record, read, write
from tests.gpt2cli.runner import invoke, stdin_of
from tests.model_folders import ModelFolders

BODY: Final = {"prompt": "z", "max_tokens": 4, "ignore_eos": True}


@pytest.fixture(scope="module")
def model(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def ask(body: Mapping[str, Any], **fields: Any) -> Record:
    same = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}
    return {**same, **fields}


def run(
    model: pathlib.Path, folder: pathlib.Path, records: Sequence[Record], *options: object
) -> Result:
    file = write(folder / "requests.jsonl", records)
    return invoke("batch", file, "-m", model, "-q", "--seed", "5", *map(str, options))


def answer(model: pathlib.Path, folder: pathlib.Path, body: Mapping[str, Any]) -> Any:
    """Return the body of the answer to one that must succeed."""
    result = run(model, folder, [ask(body)])
    assert (result.exit_code, result.stderr) == (0, "")
    [record] = read(result)
    assert record["response"]["status_code"] == 200
    return record["response"]["body"]


def complete(model: pathlib.Path, seed: int, *options: object) -> list[Record]:
    """Return the records of `gpt2 generate`."""
    line = ("generate", "-m", model, "-q", "--json", "--ignore-eos", "--seed", seed, "z")
    return [json.loads(line) for line in invoke(*map(str, (*line, *options))).stdout.splitlines()]


def test_an_answer_has_openais_form(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With the text that `gpt2 generate` writes by the same seed: the run's and the number."""
    result = run(model, tmp_path, [ask(BODY), ask(BODY, custom_id="b")])
    first, second = read(result)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(first) == ["id", "custom_id", "response", "error"]
    assert (first["custom_id"], second["custom_id"], first["error"]) == ("a", "b", None)
    assert list(first["response"]) == ["status_code", "request_id", "body"]
    for record, seed in ((first, 5), (second, 6)):
        body = record["response"]["body"]
        [choice] = body["choices"]
        [expected] = complete(model, seed, "-n", 4)
        assert (body["object"], body["model"]) == ("text_completion", str(model))
        assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
        assert (choice["text"], choice["index"]) == (expected["completion"], 0)
        assert (choice["finish_reason"], choice["logprobs"]) == ("length", None)
    ids = {record["id"] for record in (first, second)}
    ids |= {record["response"]["request_id"] for record in (first, second)}
    assert len(ids) == 4


def test_all_that_a_record_asks_for_is_in_its_one_line(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Several prompts, and completions of each; records of our own form may stand around it."""
    ours = {"prompt": "z", "max_new_tokens": 4, "ignore_eos": True, "samples": 2, "seed": 9}
    body = {**BODY, "prompt": ["zq", "z"], "n": 2, "logprobs": 1, "seed": 8}
    before, after, asked, last, again = read(run(model, tmp_path, [ours, ask(body), ours]))
    expected = complete(model, 9, "-n", 4, "-N", 2)
    assert [r["completion"] for r in (before, after, last, again)] == [
        r["completion"] for r in expected
    ] * 2
    assert [r["index"] for r in (before, after, last, again)] == [0, 0, 2, 2]
    choices = asked["response"]["body"]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert [choice["text"] for choice in choices[2:]] == [r["completion"] for r in expected]
    assert all(len(choice["logprobs"]["tokens"]) == 4 for choice in choices)
    assert asked["response"]["body"]["usage"]["completion_tokens"] == 16


def test_a_reply_of_a_chat_is_that_of_the_command_line(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """In the form of a chat's answers; without a limit a reply has at most 128 tokens."""
    body = {"messages": [{"role": "user", "content": "zq"}], "max_tokens": 6, "ignore_eos": True}
    chat = ask(body, url="/v1/chat/completions")
    free = {**body, "max_tokens": None, "overflow": "slide"}
    [first, second] = read(run(model, tmp_path, [chat, {**chat, "body": free}]))
    options = ("--seed", "5", "-n", "6", "--ignore-eos", "--json")
    with stdin_of(b"zq\n"):
        shell = invoke("chat", "-m", model, *options)
    answered = first["response"]["body"]
    assert answered["object"] == "chat.completion"
    assert answered["choices"][0]["message"] == {
        "role": "assistant",
        "content": json.loads(shell.stdout)["completion"],
    }
    assert answered["id"].startswith("chatcmpl-")
    assert second["response"]["body"]["usage"]["completion_tokens"] > 16


def test_without_a_limit_it_has_openais(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Unless the command line, nearer to the user, has another."""
    free = {"prompt": "z", "ignore_eos": True}
    for options, tokens in (((), 16), (("-n", 3), 3)):
        [record] = read(run(model, tmp_path, [ask(free)], *options))
        assert record["response"]["body"]["usage"]["completion_tokens"] == tokens


def test_the_best_of_several_is_answered(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    body = {**BODY, "temperature": 2.0, "logprobs": 0}
    made = answer(model, tmp_path, {**body, "n": 5})
    best = answer(model, tmp_path, {**body, "best_of": 5})

    def rate(choice: Any) -> float:
        return sum(choice["logprobs"]["token_logprobs"])

    assert best["choices"][0]["text"] == max(made["choices"], key=rate)["text"]
    assert best["usage"]["completion_tokens"] == 20


def test_a_beam_search_makes_all_its_completions(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    body = answer(model, tmp_path, {**BODY, "beams": 3, "n": 2})
    expected = complete(model, 5, "-n", 4, "--beams", 3, "-N", 2)
    assert [c["text"] for c in body["choices"]] == [r["completion"] for r in expected]


@pytest.mark.parametrize(
    ("record", "param", "told"),
    [
        (ask(BODY, url="/v1/embeddings"), "url", "or /v1/chat/completions, found '/v1/emb"),
        (ask(BODY, url="/v1/chat/completions"), "prompt", "unknown field prompt"),
        (ask(BODY, method="GET"), "method", "expected POST, found 'GET'"),
        (ask(BODY, extra=1), "extra", "unknown field extra"),
        (ask(BODY, custom_id=7), "custom_id", "expected a text, found 7"),
        ({"custom_id": "a", "url": "/v1/completions"}, "body", "expected an object"),
        (ask({**BODY, "stream": True}), "stream", "expected false in a batch"),
        (ask({**BODY, "echo": True, "logprobs": 1}), "echo", "expected no logprobs together with"),
        (ask({**BODY, "model": "gpt-4"}), "model", "found gpt-4"),
        (ask({**BODY, "top_p": 2}), "top_p", "expected a number between 0 and 1, found 2"),
        (ask({**BODY, "n": 0}), "n", "expected a whole number 1 or more, found 0"),
        (ask({**BODY, "prompt": "z" * 99}), "prompt", "the prompt has 99 tokens"),
        (ask({**BODY, "prompt": "\ud83d"}), None, "half of a surrogate pair"),
        (ask({**BODY, "regex": "b", "ban": "b"}), None, "every token is forbidden"),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, dict) else "",
)
def test_what_is_wrong_is_answered_and_the_others_go_on(
    model: pathlib.Path, tmp_path: pathlib.Path, record: Record, param: str | None, told: str
) -> None:
    """With a status and OpenAI's error object; the exit code is 1."""
    result = run(model, tmp_path, [record, ask(BODY)])
    bad, good = read(result)
    assert result.exit_code == 1
    assert good["response"]["status_code"] == 200
    error = bad["response"]["body"]["error"]
    assert 400 <= bad["response"]["status_code"] < 500
    assert bad["custom_id"] == record["custom_id"]
    assert error["type"] == "invalid_request_error"
    assert param in (None, error["param"])
    assert told in error["message"]


@pytest.mark.parametrize(("what", "extras"), [("keep", {"task": [1], "b": "x"}), ("ignore", {})])
def test_further_fields_are_kept_or_left_out(
    model: pathlib.Path, tmp_path: pathlib.Path, what: str, extras: Record
) -> None:
    """As of other records; but an answer's own names are no others'."""
    records = [ask(BODY, task=[1], b="x"), ask(BODY, response=1)]
    first, second = read(run(model, tmp_path, records, "--extra-fields", what))
    assert {k: v for k, v in first.items() if k in ("task", "b")} == extras
    assert (second["response"]["status_code"] == 200) is (what == "ignore")


def test_completions_alone_are_no_answer(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    result = run(model, tmp_path, [ask(BODY)], "--format", "text", "--no-quiet")
    assert (result.exit_code, result.stdout) == (1, "\n")
    assert "format: expected jsonl for records with custom_id" in result.stderr


def test_a_run_that_was_broken_off_ends_with_the_same_bytes(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """However much of the lines is there, at another batch size: no line tells the time."""
    out = tmp_path / "out"
    records = [ask({**BODY, "n": 3}), ask({**BODY, "n": 0}), ask({**BODY, "prompt": ["", "zz"]})]
    assert run(model, tmp_path, records, "-o", out).exit_code == 1
    whole = out.read_bytes()
    for kept in range(3):
        out.write_bytes(b"".join(whole.splitlines(keepends=True)[:kept]) + b"{")
        options = ("-o", out, "--resume", "--batch-size", 2)
        assert run(model, tmp_path, records, *options).exit_code == 1
        assert out.read_bytes() == whole
