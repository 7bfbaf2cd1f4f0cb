"""Claims about what `gpt2 generate --server` is told."""

import asyncio
import json
from typing import Any

import pytest

from tests.gpt2cli.serve.asgi import Reply, ask
from tests.gpt2cli.serve.conftest import Site

_ENDLESS = {"ignore_eos": True, "overflow": "slide", "max_new_tokens": 4000}


def generate(site: Site, **fields: Any) -> Reply:
    return site.ask("/gpt2/generate", fields)


def events(reply: Reply) -> list[Any]:
    """Return the lines of an answer, without its end."""
    *told, end = map(json.loads, reply.body.decode().splitlines())
    assert (reply.status, end) == (200, {})
    return told


def test_a_request_has_its_own_options_and_the_models_but_not_the_servers(site: Site) -> None:
    """Here the server's limit is 16 tokens; the starter's temperature is its own."""
    options = {"seed": 3, "max_new_tokens": 20, "logprobs": 1, "samples": 2}
    head, *pieces = events(generate(site, prompt="Once", options=options))
    assert (head["seed"], head["completion_tokens"], head["completion"]) == (3, 0, "")
    assert head["options"] == {"temperature": 0.7, "max_new_tokens": 20}
    records = {piece["sample"]: piece["record"] for piece in pieces if "record" in piece}
    for sample in (0, 1):
        texts = [piece["text"] for piece in pieces if piece["sample"] == sample]
        assert "".join(texts) == records[sample]["completion"]
        assert len(records[sample]["logprobs"]) == records[sample]["completion_tokens"] == 20
    counts = [piece["tokens"] for piece in pieces if piece["sample"] == 0]
    assert counts == sorted(counts)
    assert counts[-1] == 20
    [_, *_, end] = events(
        generate(site, prompt="Once", options={"greedy": True, "ignore_eos": True})
    )
    assert end["record"]["completion_tokens"] == 256


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({"regex": "("}, {"kind": "UsageError", "option": "regex"}),
        (
            {"max_new_tokens": 5000},
            {"kind": "UsageError", "option": "max_new_tokens", "found": "5000"},
        ),
        ({"max_new_tokens": 600, "overflow": "error"}, {"kind": "PromptError", "option": None}),
    ],
    ids=["regex", "most", "too long"],
)
def test_an_error_is_told_with_what_it_is_made_of(
    site: Site, options: dict[str, Any], own: dict[str, Any]
) -> None:
    reply = generate(site, prompt="x", options=options)
    assert reply.status == 400
    assert reply.json["error"]["message"]
    assert own.items() <= reply.json["gpt2"].items()


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": 1},
        {"prompt": "x", "options": []},
        {"prompt": "x", "options": {"nosuch": 1}},
        {"prompt": "x", "temperature": 1},
        {"prompt": "x", "id": "i" * 65},
        {"prompt": "x" * (2**20 + 1)},
    ],
    ids=["prompt", "options", "option", "field", "id", "length"],
)
def test_a_wrong_request_is_refused(site: Site, fields: dict[str, Any]) -> None:
    assert generate(site, **fields).status == 400


def test_a_cancelled_request_ends_with_what_it_has(site: Site) -> None:
    """What is not running is not cancelled, and that is told."""

    async def start() -> Reply:
        fields = {"id": "mine", "prompt": "x", "options": _ENDLESS}
        reply = asyncio.ensure_future(ask(site.app, "/gpt2/generate", fields))
        while not (await ask(site.app, "/gpt2/cancel", {"id": "mine"})).json["cancelled"]:
            assert not reply.done()
            await asyncio.sleep(0.01)  # for the others to run
        return await reply

    last = events(site.run(start()))[-1]["record"]
    assert last["finish_reason"] == "interrupted"
    assert last["completion_tokens"] < 4000
    for _ in range(1000):  # it is forgotten a moment after its last event
        told = site.ask("/gpt2/cancel", {"id": "mine"}).json
        if not told["cancelled"]:
            break
    assert told == {"cancelled": False}
