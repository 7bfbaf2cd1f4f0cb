"""POST /v1/completions on the starter: OpenAI's form, and the texts of `generate`."""

import asyncio
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from gpt2cli.scoring import choose_stride, score
from tests.gpt2cli.runner import invoke
from tests.gpt2cli.serve.asgi import Reply, ask
from tests.gpt2cli.serve.conftest import Site, load

PROMPT = "Once upon a time"


def generate(folder: pathlib.Path, *arguments: str) -> list[Any]:
    """Return the records of `gpt2 generate`."""
    done = invoke("generate", "-m", folder, "--json", "-q", "--device", "cpu", *arguments)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_choice_has_the_text_and_the_record_of_generate(
    site: Site, starter_folder: pathlib.Path
) -> None:
    """Byte for byte, for two samples, with options of the table by their own names."""
    options = ["--top-k", "9", "--stop", ".", "--logprobs", "1", "-N", "2", "--seed", "6"]
    records = generate(starter_folder, PROMPT, "-n", "20", *options)
    fields = {"top_k": 9, "stop": ".", "logprobs": 1, "n": 2, "seed": 6}
    answer = site.complete(prompt=PROMPT, max_tokens=20, **fields)
    assert [choice["gpt2"] for choice in answer["choices"]] == records
    assert [choice["text"] for choice in answer["choices"]] == [r["completion"] for r in records]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert {choice["seed"] for choice in answer["choices"]} == {6}
    made = sum(record["completion_tokens"] for record in records)
    expected = {"prompt_tokens": 4, "completion_tokens": made, "total_tokens": 4 + made}
    assert answer["usage"] == expected
    assert answer["system_fingerprint"] == records[0]["fingerprint"]
    assert answer["object"] == "text_completion"


def test_sixteen_tokens_are_made_where_nothing_is_said(site: Site) -> None:
    """OpenAI's default; a random seed is told."""
    answer = site.complete(prompt=PROMPT, ignore_eos=True)
    [choice] = answer["choices"]
    assert (choice["finish_reason"], choice["gpt2"]["completion_tokens"]) == ("length", 16)
    again = site.complete(prompt=PROMPT, ignore_eos=True, seed=choice["seed"])
    assert again["choices"][0]["text"] == choice["text"]


def test_each_form_of_prompt_gives_the_same_text(site: Site) -> None:
    """Text, ids, and lists of them; the prompt after the first has the next seed."""
    ids = site.service.model.tokenizer.encode(PROMPT)
    forms: list[Any] = [PROMPT, ids, [PROMPT, PROMPT], [ids, ids]]
    answers = [site.complete(prompt=form, seed=3, max_tokens=8)["choices"] for form in forms]
    texts = [[choice["text"] for choice in choices] for choices in answers]
    assert texts[0] == texts[1] == texts[2][:1]
    assert texts[2] == texts[3]
    assert [choice["seed"] for choice in answers[3]] == [3, 4]
    assert answers[1][0]["gpt2"]["context"]["ids"] == [ids]


def test_no_prompt_starts_from_the_beginning_of_a_text(site: Site) -> None:
    texts = [
        site.complete(seed=1, **fields)["choices"][0]["text"]
        for fields in ({}, {"prompt": None}, {"prompt": ""})
    ]
    assert len(set(texts)) == 1


def test_a_prompt_is_scored_with_no_new_tokens(site: Site) -> None:
    """As harnesses do: the logprobs of `gpt2 score`; the first token has none."""
    model = site.service.model
    ids = model.tokenizer.encode(PROMPT)
    answer = site.complete(prompt=ids, max_tokens=0, echo=True, logprobs=2)
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (PROMPT, "length")
    listed = choice["logprobs"]
    assert listed["tokens"] == ["Once", " upon", " a", " time"]
    assert listed["text_offset"] == [0, 4, 9, 11]
    assert listed["token_logprobs"][0] is listed["top_logprobs"][0] is None
    assert all(value <= 0 for value in listed["token_logprobs"][1:])
    assert [len(top) in (2, 3) for top in listed["top_logprobs"][1:]] == [True] * 3
    total = math.fsum(listed["token_logprobs"][1:])
    alone = _score_alone(site, ids)
    assert total == pytest.approx(math.fsum(alone), abs=1e-9)


def _score_alone(site: Site, ids: list[int]) -> list[float]:
    """Score by a second engine, since the server's is in use."""
    engine = load(site.service.model.stored.folder.path).engine
    stride = choose_stride(None, engine.shape.n_positions)
    parts = score(engine, ids, bos_token_id=None, stride=stride)
    return [one.logprob for part in parts for one in part if one.logprob is not None]


def test_text_offsets_are_those_of_the_character_that_a_token_begins_in(site: Site) -> None:
    r"""An emoji of several tokens is one character; its parts are bytes:\x…, which join to it."""
    text = "a 🦊 b"
    answer = site.complete(prompt=text, max_tokens=0, echo=True, logprobs=0)
    listed = answer["choices"][0]["logprobs"]
    pieces = b"".join(
        bytes.fromhex(token[6:].replace("\\x", ""))
        if token.startswith("bytes:")
        else token.encode()
        for token in listed["tokens"]
    )
    assert pieces.decode() == text
    within = [
        offset
        for token, offset in zip(listed["tokens"], listed["text_offset"], strict=True)
        if token.startswith("bytes:")
    ]
    assert set(within) <= {1, 2}
    assert listed["text_offset"][-1] == text.index(" b")


def test_tokens_that_a_stop_sequence_cuts_off_are_not_listed(site: Site) -> None:
    """Neither whole nor in a stream, whose pieces join to the same lists."""
    fields = {"prompt": PROMPT, "seed": 6, "max_tokens": 30, "logprobs": 0, "ignore_eos": True}
    [uncut] = site.complete(**fields)["choices"]
    words = uncut["text"].split(" ")
    fields["stop"] = f" {words[8]} {words[9]} {words[10]}"
    [choice] = site.complete(**fields)["choices"]
    assert choice["finish_reason"] == "stop"
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    events = site.ask("/v1/completions", {**fields, "stream": True}).events
    parts = [event["choices"][0] for event in events[:-1]]
    assert "".join(part["text"] for part in parts) == choice["text"]
    for name, whole in choice["logprobs"].items():
        assert [one for part in parts for one in part["logprobs"][name]] == whole
    assert parts[-1]["gpt2"] == choice["gpt2"]


def test_the_best_of_several_are_chosen_by_their_mean_logprob(site: Site) -> None:
    """All are paid for; logprobs that nobody asked for are not told."""
    fields = {"prompt": PROMPT, "seed": 2, "max_tokens": 6, "ignore_eos": True}
    every = site.complete(**fields, n=4, logprobs=0)["choices"]
    every.sort(key=lambda choice: -sum(choice["logprobs"]["token_logprobs"]))
    answer = site.complete(**fields, n=2, best_of=4)
    best = [choice["gpt2"]["sample"] for choice in every[:2]]
    assert [choice["gpt2"]["sample"] for choice in answer["choices"]] == best
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["logprobs"] is None
    assert "logprobs" not in answer["choices"][0]["gpt2"]
    assert answer["usage"]["completion_tokens"] == 24


def test_a_stream_is_events_whose_texts_join_and_ends_with_the_usage(site: Site) -> None:
    fields = {"prompt": [PROMPT, "The fox"], "n": 2, "seed": 1, "max_tokens": 7, "echo": True}
    whole = site.complete(**fields)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *pieces, usage, end = site.ask("/v1/completions", {**fields, **options}).events
    assert end is None
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert {piece["usage"] for piece in pieces} == {None}
    choices = [choice for piece in pieces for choice in piece["choices"]]
    for index, expected in enumerate(whole["choices"]):
        own = [choice for choice in choices if choice["index"] == index]
        assert "".join(choice["text"] for choice in own) == expected["text"]
        assert [choice["finish_reason"] for choice in own[:-1]] == [None] * (len(own) - 1)
        assert own[-1]["finish_reason"] == "length"
        assert len(own) > 3


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"max_tokens": "x"}, "max_tokens", "expected a whole number 0 or more, found 'x'"),
        ({"max_tokens": -1}, "max_tokens", "expected a whole number 0 or more, found -1"),
        ({"max_tokens": 5000}, "max_tokens", "expected at most 4096 on this server, found 5000"),
        ({"max_tokens": 1, "max_new_tokens": 1}, "max_tokens", "expected no max_new_tokens"),
        ({"max_new_tokens": 5000}, "max_new_tokens", "expected at most 4096"),
        ({"min_new_tokens": 20}, "min_new_tokens", "expected at most max_tokens, 16, found 20"),
        ({"temperature": -1}, "temperature", "found -1"),
        ({"temperature": True}, "temperature", "found true"),
        ({"top_p": 1.1}, "top_p", "expected a number between 0 and 1, found 1.1"),
        ({"logprobs": 21}, "logprobs", "found 21"),
        ({"n": 0}, "n", "found 0"),
        ({"n": 2, "best_of": 1}, "best_of", "expected at least n, 2, found 1"),
        ({"n": 1, "best_of": 2, "stream": True}, "best_of", "expected n, 1"),
        ({"n": 2000}, "prompt", "it asks for 2000 completions, the limit is 1024"),
        ({"beams": 5}, "beams", "expected at most 4 on this server, found 5"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "found 99999"),
        ({"json_schema": "@/etc/passwd"}, "json_schema", "expected a JSON schema, an object"),
        ({"prompt": 1}, "prompt", "expected a text, token ids, or a list of one of them, found 1"),
        ({"prompt": []}, "prompt", "found []"),
        ({"prompt": ["a", 1]}, "prompt", "found ['a', 1]"),
        ({"prompt": [1, True]}, "prompt", "found [1, True]"),
        ({"prompt": [4096]}, "prompt", "expected token ids 0 to 4095, found 4096"),
        ({"prompt": "a b c d " * 200}, "prompt", "the prompt has"),
        ({"prompt": "a" * 2**20 + "a"}, "prompt", "the limit is 1048576"),
        ({"prompt": [1], "heal": True}, "heal", "expected prompts that are texts"),
        ({"heal": True, "echo": True, "logprobs": 1}, "heal", "expected no echo with logprobs"),
        ({"suffix": "end"}, "suffix", "this model only continues a text"),
        ({"stream": 1}, "stream", "expected true or false, found 1"),
        ({"echo": "yes"}, "echo", "expected true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "expected stream true"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options", "include_usage"),
        ({"temprature": 1}, "temprature", "unknown field temprature"),
    ],
)
def test_what_is_wrong_is_named(site: Site, fields: dict[str, Any], param: str, told: str) -> None:
    status, named, message = site.ask("/v1/completions", {"prompt": "x", **fields}).error
    assert (status, named) == (400, param)
    assert told in message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "the body is not JSON"),
        (b"[1]", "the body is not a JSON object"),
        (b"\xff", "the body is not valid UTF-8"),
        (b'{"prompt": "\\ud800"}', "half of a surrogate pair"),
        (b"[" * 5000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_object_of_json_is_refused(site: Site, body: bytes, told: str) -> None:
    status, param, message = site.ask("/v1/completions", body=body).error
    assert (status, param) == (400, None)
    assert told in message


def test_what_openai_takes_and_we_do_not_need_is_taken(site: Site) -> None:
    """Fields that are null, too; the model by each of its names."""
    fields = {"user": "me", "suffix": None, "stop": None, "logprobs": None, "model": "alias"}
    assert (
        site.complete(prompt="x", max_tokens=1, **fields)["model"] == site.service.model.stored.name
    )


def test_another_model_is_not_found(site: Site) -> None:
    status, param, message = site.ask("/v1/completions", {"prompt": "x", "model": "gpt-4"}).error
    assert (status, param) == (404, "model")
    assert "there is no model gpt-4 here" in message


def test_options_that_leave_nothing_to_choose_are_the_clients_error(site: Site) -> None:
    """In a stream that has begun they are its last event."""
    nothing = {"prompt": "x", "choice": ["a"], "ban": ["a"], "max_tokens": 4}
    status, _, message = site.ask("/v1/completions", nothing).error
    assert status == 400
    assert message
    assert site.complete(prompt="x", max_tokens=1)["choices"]


ENDLESS: Final[dict[str, Any]] = {
    "prompt": "x",
    "overflow": "slide",
    "ignore_eos": True,
    "max_tokens": 10**6,
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_slots(
    starter_folder: pathlib.Path, open_site: Callable[..., Site], stream: bool
) -> None:
    """Of a completion that would take hours; nothing is left of it."""
    site = open_site(load(starter_folder), max_tokens_limit=10**6)

    async def leave_soon() -> None:
        gone = asyncio.Event()
        fields = {**ENDLESS, "stream": stream}
        asked = asyncio.create_task(ask(site.app, "/v1/completions", fields, gone=gone))
        await until(lambda: site.service.runner.running == 1)
        gone.set()
        await asked
        await until(lambda: site.service.runner.running == 0)

    site.run(leave_soon())
    assert site.told == []


def test_a_reader_that_takes_nothing_delays_nobody(
    starter_folder: pathlib.Path, open_site: Callable[..., Site]
) -> None:
    """What it has not taken is joined: it gets two events, and all of its text."""
    site = open_site(load(starter_folder))
    fields: dict[str, Any] = {"prompt": PROMPT, "seed": 1, "max_tokens": 60, "ignore_eos": True}

    async def read_late() -> Reply:
        reads = asyncio.Event()
        streamed = {**fields, "stream": True}
        late = asyncio.create_task(ask(site.app, "/v1/completions", streamed, reads=reads))
        await until(lambda: site.service.runner.running == 1)
        await until(lambda: site.service.runner.running == 0)
        assert (await ask(site.app, "/v1/completions", fields)).status == 200
        reads.set()
        return await late

    *events, end = site.run(read_late()).events
    assert end is None
    assert len(events) == 2
    [choice] = site.complete(**fields)["choices"]
    assert "".join(event["choices"][0]["text"] for event in events) == choice["text"]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    while not holds():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("option", ["stop", "ban", "dry_sequence_breaker"])
def test_more_texts_of_an_option_than_others_can_wait_for_are_refused(
    site: Site, option: str
) -> None:
    fields: dict[str, Any] = {"prompt": "x", "max_tokens": 1, option: ["no"] * 257}
    told = f"{option}: expected at most 256 texts on this server, found 257"
    assert site.ask("/v1/completions", fields).error == (400, option, told)
    site.complete(**{**fields, option: ["no"] * 256})
