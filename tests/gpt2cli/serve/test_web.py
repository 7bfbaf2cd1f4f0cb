"""Who is answered: names, origins, keys; and what is there while the model loads, or fails."""

import asyncio
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from gpt2cli.errors import UsageError
from gpt2cli.serve.config import ServeConfig
from gpt2cli.serve.guard import read_keys
from tests.gpt2cli.serve.asgi import Reply, ask
from tests.gpt2cli.serve.conftest import Site

OpenSite = Callable[..., Site]


def test_while_the_model_loads_health_says_so_and_others_are_asked_to_wait(
    open_site: OpenSite,
) -> None:
    site = open_site()
    reply = site.ask("/health")
    assert (reply.status, reply.json) == (503, {"status": "loading"})
    refused = site.ask("/v1/completions", {"prompt": "x"})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


def test_a_server_that_is_ready_tells_its_model(site: Site) -> None:
    assert site.ask("/health").json == {"status": "ready"}
    [listed] = site.ask("/v1/models").json["data"]
    name = site.service.model.stored.name
    assert (listed["id"], listed["object"], listed["max_model_len"]) == (name, "model", 512)
    assert site.ask("/v1/models/alias").json == listed
    assert site.ask("/v1/models/other").error[:2] == (404, "model")


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/nothing", "GET", 404), ("/v1/completions", "GET", 405)]
)
def test_other_paths_and_methods_are_errors_of_the_same_form(
    site: Site, path: str, method: str, status: int
) -> None:
    assert site.ask(path, method=method).error[0] == status


def test_a_client_that_leaves_before_its_body_is_whole_is_no_failure(site: Site) -> None:
    async def leave() -> Reply:
        gone = asyncio.Event()
        gone.set()
        return await ask(site.app, "/v1/completions", body=b"{", gone=gone, whole=False)

    assert site.run(leave()).status == 499
    counted = site.ask("/metrics").body.decode()
    assert 'path="/v1/completions",status="499"} 1\n' in counted
    assert 'status="500"' not in counted
    assert site.told == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 503),
        ("127.0.0.1", 503),
        ("[::1]:8080", 503),
        ("192.168.0.7:8080", 503),  # an address is nobody's name
        ("example.org", 403),
        ("127.0.0.1.example.org:8080", 403),
        ("localhost.example.org", 403),
        ("[::1", 403),
    ],
)
def test_a_name_that_is_not_ours_is_refused(open_site: OpenSite, host: str, status: int) -> None:
    """By which a page in a browser could reach this machine (DNS rebinding)."""
    assert open_site().ask("/v1/models", headers={"host": host}).status == status


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:8080", True),
        ("https://example.org", False),
        ("http://127.0.0.1:8081", False),
        ("null", False),
    ],
)
def test_pages_of_other_origins_are_refused(
    open_site: OpenSite, origin: str, allowed: bool
) -> None:
    """Also what a browser sends without asking first."""
    reply = open_site().ask("/health", headers={"origin": origin})
    assert (reply.status != 403) is allowed
    assert "access-control-allow-origin" not in reply.headers


def test_cors_lets_pages_of_an_origin_in(open_site: OpenSite) -> None:
    site = open_site(cors=("https://example.org",))
    headers = {"origin": "https://example.org"}
    asked = {**headers, "access-control-request-method": "POST"}
    for how in ({"headers": headers}, {"headers": asked, "method": "OPTIONS"}):
        reply = site.ask("/health", **how)
        assert reply.headers["access-control-allow-origin"] == "https://example.org"
    assert site.ask("/health", headers={"origin": "https://example.com"}).status == 403


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("Bearer one", True),
        ("bearer two", True),
        ("Bearer One", False),
        ("Bearer one two", False),
        ("Basic one", False),
        ("one", False),
        ("", False),
    ],
)
def test_only_those_with_a_key_are_answered(open_site: OpenSite, given: str, allowed: bool) -> None:
    """Whoever has one may call the server by any name; its health is no secret."""
    site = open_site(api_key=("one", "two"))
    headers = {"authorization": given, "host": "example.org"}
    reply = site.ask("/v1/models", headers=headers)
    assert reply.status == (503 if allowed else 401)
    if not allowed:
        assert reply.json["error"]["code"] == "invalid_api_key"
        assert "one" not in reply.json["error"]["message"]
    assert site.ask("/health").status == 503


def test_keys_are_read_from_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n two \n")
    assert read_keys(ServeConfig(api_key_file=file, api_key=("x",))) == (b"x", b"one", b"two")
    file.write_text("\n")
    with pytest.raises(UsageError, match="has no key"):
        read_keys(ServeConfig(api_key_file=file))


@pytest.mark.parametrize("options", [{"host": "0.0.0.0"}, {"host": "example.org"}, {"host": "::"}])
def test_a_host_that_others_reach_takes_a_key_or_a_word(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        ServeConfig(**options)
    assert error.value.option == "host"
    ServeConfig(**options, no_key=True)
    ServeConfig(**options, api_key=("x",))


def test_metrics_are_counted_in_the_form_of_prometheus(open_site: OpenSite) -> None:
    """Unknown paths share one name, since clients could make any number of them."""
    site = open_site()
    site.ask("/health")
    site.ask("/a")
    site.ask("/b")
    reply = site.ask("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = reply.body.decode().splitlines()
    assert lines[:2] == [
        "# HELP gpt2_requests_total Requests that were answered.",
        "# TYPE gpt2_requests_total counter",
    ]
    assert lines[2:] == [
        'gpt2_requests_total{path="/health",status="503"} 1',
        'gpt2_requests_total{path="other",status="404"} 2',
    ]


def test_metrics_tell_what_the_model_did(site: Site) -> None:
    """Tokens of a request, counted before and after it; soon nothing runs or waits."""

    def read() -> dict[str, float]:
        lines = site.ask("/metrics").body.decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    before = read()
    site.complete(prompt="Once upon a time", max_tokens=5, n=2, ignore_eos=True)
    for _ in range(10_000):  # the loop sends a text before it frees its slot
        after = read()
        if not after["gpt2_slots_in_use"]:
            break
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown['gpt2_requests_total{path="/v1/completions",status="200"}'] == 1
    assert grown["gpt2_prompt_tokens_total"] == 4
    assert grown["gpt2_completion_tokens_total"] == 10
    assert grown['gpt2_seconds_total{phase="decode"}'] > 0
    assert (after["gpt2_waiting_requests"], after["gpt2_slots_in_use"]) == (0, 0)
    assert after["gpt2_slots"] == 4


def test_a_text_becomes_ids_and_ids_become_text(site: Site) -> None:
    answer = site.ask("/tokenize", {"prompt": "Once upon 🦊"}).json
    assert (answer["count"], answer["max_model_len"]) == (len(answer["tokens"]), 512)
    assert answer["pieces"][0] == {"id": answer["tokens"][0], "text": "Once"}
    assert any("bytes" in piece for piece in answer["pieces"])
    assert site.ask("/detokenize", {"tokens": answer["tokens"]}).json == {"prompt": "Once upon 🦊"}
    assert site.ask("/tokenize", {"prompt": ""}).json["tokens"] == []


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": 1}, "prompt"),
        ("/tokenize", {"prompt": "x", "top_k": 1}, "top_k"),
        ("/tokenize", {"prompt": "x", "model": "other"}, "model"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [True]}, "tokens"),
        ("/detokenize", {"tokens": [4096]}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
    ],
)
def test_wrong_fields_of_these_are_named(
    site: Site, path: str, fields: dict[str, Any], param: str
) -> None:
    assert site.ask(path, fields).error[1] == param


def test_a_body_beyond_the_limit_is_refused(site: Site) -> None:
    status, _, message = site.ask("/v1/completions", body=b" " * (10 * 2**20 + 1)).error
    assert (status, message) == (413, "the body is longer than 10485760 bytes")


def test_what_fails_in_a_request_is_told_and_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its words, which could be anything; the next request runs."""

    def fail(*given: object) -> None:
        raise RuntimeError("secret")

    for part in ("read_ask", "describe_model"):
        path = "/v1/completions" if part == "read_ask" else "/v1/models"
        with monkeypatch.context() as context:
            context.setattr(f"gpt2cli.serve.endpoints.{part}", fail)
            reply = site.ask(path, {"prompt": "x"} if part == "read_ask" else None)
        assert reply.error[0::2] == (500, "the server failed (RuntimeError); try again")
    assert site.told == ["a request failed: RuntimeError: secret"] * 2
    site.told.clear()
    assert site.complete(prompt="x", max_tokens=1)["choices"]
