"""Claims about `gpt2 generate --server`, with servers that answer by a script."""

import http.server
import json
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.gpt2cli.runner import error_line, invoke

Answers = Mapping[str, tuple[int, bytes]]  # status and body, by path
Serve = Callable[[Answers], str]

_MODEL = {
    "id": "starter",
    "title": "starter",
    "precision": "fp32",
    "device": "cpu",
    "fingerprint": "0",
    "source": "0",
    "max_model_len": 512,
    "generation_config": {"temperature": 0.7},
    "asked": {"model": "starter", "revision": None, "step": None, "adapter": []},
}
_MODELS = (200, json.dumps({"data": [_MODEL]}).encode())
_HEAD = {"prompt": "x", "completion": "", "finish_reason": "interrupted", "prompt_tokens": 1}
_HEAD |= {"completion_tokens": 0, "sample": 0, "seed": 3}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what starts a server, and gives its address."""
    servers = []

    def start(answers: Answers) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self.rfile.read(length)
                status, body = answers.get(self.path, (404, b"none"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the library's name

            def log_message(self, *told: object) -> None: ...

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def lines(*events: Mapping[str, Any]) -> tuple[int, bytes]:
    return 200, "".join(json.dumps(event) + "\n" for event in events).encode()


def refusal(status: int, message: str, **more: Any) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"message": message}, **more}).encode()


def piece(sample: int, text: str, tokens: int) -> dict[str, Any]:
    return {"sample": sample, "text": text, "tokens": tokens}


def last(sample: int, text: str, reason: str, *, tokens: int = 2) -> dict[str, Any]:
    made = {"finish_reason": reason, "completion_tokens": tokens, "sample": sample}
    return {**piece(sample, text, tokens), "record": {**_HEAD, **made, "completion": f"*{text}"}}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"/v1/models": (200, b"<html>")}, "what listens at URL is no `gpt2 serve`"),
        (
            {"/v1/models": (200, b'{"data": [{"id": "x"}]}')},
            "what listens at URL is no `gpt2 serve`",
        ),
        ({}, "what listens at URL is no `gpt2 serve`"),
        (
            {"/v1/models": refusal(503, "the model is loading")},
            "the server at URL: the model is loading",
        ),
        (
            {"/v1/models": _MODELS, "/gpt2/generate": refusal(429, "9 wait\n already")},
            "the server at URL: 9 wait already",
        ),
        (
            {"/v1/models": _MODELS, "/gpt2/generate": (200, b'{"prompt"')},
            "the connection to URL was lost",
        ),
    ],
    ids=["a page", "another's", "nothing", "loading", "busy", "cut"],
)
def test_a_server_that_does_not_do_it_is_an_error_of_one_line(
    serve: Serve, answers: Answers, told: str
) -> None:
    url = serve(answers)
    result = invoke("generate", "x", "-m", "starter", "--server", url)
    assert (result.exit_code, error_line(result)) == (1, told.replace("URL", url))


@pytest.mark.parametrize(
    ("own", "told", "code"),
    [
        (
            {"kind": "UsageError", "option": "top_k", "expected": "less, or {min_p}", "found": "9"},
            "GPT2_TOP_K: expected less, or --min-p, found 9",
            2,
        ),
        (
            {"kind": "PromptError", "fault": "long", "advice": "use {overflow}"},
            "long; use --overflow",
            1,
        ),
        ({"kind": "Exit"}, "the server at URL: no", 1),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_with_a_request_is_told_as_by_a_run_here(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, own: dict[str, Any], told: str, code: int
) -> None:
    """With the option as the user wrote it, before or after the first piece."""
    monkeypatch.setenv("GPT2_TOP_K", "9")
    refused = refusal(400, "no", gpt2=own)
    url = serve({"/v1/models": _MODELS, "/gpt2/generate": refused})
    result = invoke("generate", "x", "-m", "starter", "--server", url)
    assert (result.exit_code, error_line(result)) == (code, told.replace("URL", url))
    url = serve({"/v1/models": _MODELS, "/gpt2/generate": lines(_HEAD, json.loads(refused[1]))})
    result = invoke("generate", "x", "-m", "starter", "--server", url)
    assert (result.exit_code, result.stdout) == (code, "x\n")
    assert result.stderr == f"gpt2: error: {told.replace('URL', url)}\n"


def test_samples_come_in_their_order_and_as_they_were_sent(serve: Serve) -> None:
    events = (piece(1, "b", 1), piece(0, "a", 1), last(1, "d", "length"), last(0, "c", "context"))
    url = serve({"/v1/models": _MODELS, "/gpt2/generate": lines(_HEAD, *events)})
    run = ("generate", "x", "-m", "starter", "-N", "2", "--server", url)
    result = invoke(*run)
    assert (result.exit_code, result.stdout) == (0, "xac\n---\nxbd\n")
    assert result.stderr.startswith("gpt2: stopped at the model's limit of 512 tokens")
    records = [json.loads(line) for line in invoke(*run, "--json", "-q").stdout.splitlines()]
    assert [r["completion"] for r in records] == ["*c", "*d"]


def test_what_a_lost_server_gave_is_kept(serve: Serve, tmp_path: pathlib.Path) -> None:
    """A sample that was open has a record as after Ctrl-C; one that had not begun has none."""
    events = (piece(0, "a", 1), piece(0, "bc", 3), last(1, "d", "length"))
    url = serve({"/v1/models": _MODELS, "/gpt2/generate": lines(_HEAD, *events)})
    run = ("generate", "x", "-m", "starter", "-N", "3", "--server", url)
    told = f"gpt2: error: the connection to {url} was lost before the end\n"
    result = invoke(*run)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "xabc\n---\nxd\n", told)
    result = invoke(*run, "--json")
    assert (result.exit_code, result.stderr) == (1, told)
    kept = [json.loads(line) for line in result.stdout.splitlines()]
    assert kept[0] == {**_HEAD, "completion": "abc", "completion_tokens": 3}
    assert [record["finish_reason"] for record in kept] == ["interrupted", "length"]
    out = tmp_path / "out"
    assert invoke(*run, "-o", str(out)).exit_code == 1
    assert out.read_text() == "xabc\n---\nxd\n"


def test_a_text_that_the_server_cut_is_kept_and_an_error(serve: Serve) -> None:
    """What had not begun by then is left out."""
    events = (last(0, "a", "interrupted"), last(1, "", "interrupted", tokens=0))
    url = serve({"/v1/models": _MODELS, "/gpt2/generate": lines(_HEAD, *events)})
    result = invoke("generate", "x", "-m", "starter", "-N", "2", "--server", url)
    assert (result.exit_code, result.stdout) == (1, "xa\n")
    assert result.stderr.startswith(f"gpt2: error: the server at {url} cut the text short")


@pytest.mark.parametrize("key", ["", "a\nb: c", "é"])
def test_a_key_that_no_header_holds_is_wrong_usage_and_is_not_shown(
    tmp_path: pathlib.Path, key: str
) -> None:
    """Of a file's lines the first counts."""
    file = tmp_path / "key"
    file.write_text(key)
    run = ("generate", "x", "--server", "http://127.0.0.1:1", "--api-key-file", file)
    result = invoke(*run)
    wrong = "\n" not in key
    told = f"--api-key-file: expected a key of printable ASCII in {file}"
    assert result.exit_code == (2 if wrong else 1)
    assert not wrong or error_line(result) == told
