"""POST /v1/chat/completions on the starter: OpenAI's form, and the replies of `gpt2 chat`."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.gpt2cli.runner import invoke, stdin_of
from tests.gpt2cli.serve.conftest import Site, load

ASKED: Final[Any] = [{"role": "user", "content": "Hello, Fox! "}]


def reply(site: Site, messages: Any = ASKED, **fields: Any) -> Any:
    """Return the answer, which must be right."""
    answer = site.ask("/v1/chat/completions", {"messages": messages, **fields})
    assert answer.status == 200, answer.body
    return answer.json


def test_a_reply_has_the_text_and_the_record_of_chat(
    site: Site, starter_folder: pathlib.Path
) -> None:
    """Of the first turn, with a system text; the record has what the model saw."""
    options = ["--seed", "7", "--system", "A wood.", "--device", "cpu", "-n", "30", "-q"]
    with stdin_of(b"Hello, Fox!\n"):
        done = invoke("chat", "-m", starter_folder, "--json", *options)
    record = json.loads(done.stdout)
    messages = [{"role": "system", "content": "A wood."}, *ASKED]
    answer = reply(site, messages, seed=7, max_tokens=30)
    [choice] = answer["choices"]
    assert choice["gpt2"] == record
    assert choice["message"] == {"role": "assistant", "content": record["completion"]}
    assert (choice["seed"], answer["object"]) == (7, "chat.completion")
    assert answer["usage"]["prompt_tokens"] == record["prompt_tokens"]


def test_earlier_turns_stand_in_the_transcript(site: Site) -> None:
    """Messages of one speaker in a row are one; parts of a content too."""
    parts = [{"type": "text", "text": "Wh"}, {"type": "text", "text": "o?"}]
    messages = [
        {"role": "developer", "content": "A wood."},
        {"role": "user", "content": "Hi."},
        {"role": "user", "content": "You!"},
        {"role": "assistant", "content": " Yes? "},
        {"role": "user", "content": parts},
    ]
    [choice] = reply(site, messages, max_tokens=1)["choices"]
    ids = [i for run in choice["gpt2"]["context"]["ids"] for i in run]
    seen = site.service.model.tokenizer.show(ids)
    assert seen == "A wood.\n\nUser: Hi.\nYou!\nBot: Yes?\nUser: Who?\nBot:"
    assert choice["gpt2"]["prompt"] == "Who?"


def test_a_reply_has_128_tokens_at_most_where_nothing_is_said(site: Site) -> None:
    """As in `gpt2 chat`; both names of the limit are taken."""
    [choice] = reply(site, ignore_eos=True, seed=1, stop=[])["choices"]
    options = choice["gpt2"]["options"]
    assert options["max_new_tokens"] == 128
    for name in ("max_tokens", "max_completion_tokens"):
        [shorter] = reply(site, **{name: 2})["choices"]
        assert shorter["gpt2"]["completion_tokens"] <= 2


def test_a_reply_has_what_the_server_allows_where_that_is_fewer(
    open_site: Callable[..., Site], starter_folder: pathlib.Path
) -> None:
    site = open_site(load(starter_folder), max_tokens_limit=5)
    [choice] = reply(site)["choices"]
    assert choice["gpt2"]["options"]["max_new_tokens"] == 5


def test_a_stream_says_who_speaks_once_and_joins_to_the_reply(site: Site) -> None:
    """White space around it is no part of it; logprobs are those of the whole."""
    fields = {"seed": 3, "max_tokens": 20, "n": 2, "logprobs": True, "top_logprobs": 1}
    whole = reply(site, **fields)
    streamed = {**fields, "stream": True, "stream_options": {"include_usage": True}}
    asked = {"messages": ASKED, **streamed}
    *events, usage, end = site.ask("/v1/chat/completions", asked).events
    assert end is None
    assert usage["usage"] == whole["usage"]
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    choices = [choice for event in events for choice in event["choices"]]
    for index, expected in enumerate(whole["choices"]):
        own = [choice for choice in choices if choice["index"] == index]
        assert [("role" in choice["delta"]) for choice in own] == [True] + [False] * (len(own) - 1)
        text = "".join(choice["delta"]["content"] for choice in own)
        assert text == expected["message"]["content"] == text.strip()
        listed = [token for choice in own for token in choice["logprobs"]["content"]]
        assert listed == expected["logprobs"]["content"]
        assert own[-1]["gpt2"] == expected["gpt2"]
    first = whole["choices"][0]["logprobs"]["content"][0]
    assert first.keys() == {"token", "logprob", "bytes", "top_logprobs"}
    assert bytes(first["bytes"]).decode() == first["token"]
    assert len(first["top_logprobs"]) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [*ASKED, {"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [*ASKED, {"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a b " * 600}]}, "messages"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"max_tokens": 5000}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
        ({"tools": []}, "tools"),
        ({"regex": "a"}, "regex"),
        ({"n": 1025}, "n"),
        ({"model": "other"}, "model"),
    ],
)
def test_what_is_wrong_with_a_chat_is_named(site: Site, fields: Any, param: str) -> None:
    refused = site.ask("/v1/chat/completions", {"messages": ASKED, **fields})
    assert refused.error[1] == param
