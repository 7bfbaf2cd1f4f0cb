"""Uses a server by OpenAI's client: `with_openai.py ADDRESS EXPECTED [KEYED]`.

EXPECTED is what `served.py` writes: JSON with what `gpt2` itself makes. KEYED is the address of a
server that wants the key "sesame" and answers one request at a time. Prints a line for each check,
and ends with 1 if one of them fails.
"""

import asyncio
import http.client
import json
import pathlib
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from typing import Any

import openai

address, expected_file, keyed = sys.argv[1:]
expected: dict[str, Any] = json.loads(pathlib.Path(expected_file).read_text(encoding="utf-8"))
client: Any = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
later: Any = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
closed: Any = openai.OpenAI(base_url=f"{keyed}/v1", api_key="sesame", max_retries=0)
ASK: dict[str, Any] = {"model": "starter", "prompt": "Once upon", "seed": 6, "max_tokens": 30}
CHAT: dict[str, Any] = {
    "model": "starter",
    "messages": [{"role": "user", "content": "Hello, Fox!"}],
    "seed": 6,
    "max_tokens": 30,
}
ENDLESS: dict[str, Any] = {
    **ASK,
    "max_tokens": 4000,
    "stream": True,
    "extra_body": {"ignore_eos": True, "overflow": "slide"},
}


def completions() -> None:
    """Return once with a usage."""
    done = client.completions.create(**ASK)
    assert done.choices[0].text == expected["completion"]
    assert done.choices[0].finish_reason == "length"
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (2, 30)


def streamed() -> None:
    """Return by pieces."""
    options = {"include_usage": True}
    chunks = list(client.completions.create(**ASK, stream=True, stream_options=options))
    assert "".join(c.text for chunk in chunks for c in chunk.choices) == expected["completion"]
    assert chunks[-1].usage.completion_tokens == 30
    assert len(chunks) > 10


def asynchronous() -> None:
    """Return four at once, two of them by pieces."""

    async def stream() -> str:
        chunks = await later.completions.create(**ASK, stream=True)
        return "".join([c.text async for chunk in chunks for c in chunk.choices])

    async def whole() -> str:
        return str((await later.completions.create(**ASK)).choices[0].text)

    async def run() -> list[str]:
        return [*await asyncio.gather(whole(), stream(), whole(), stream())]

    assert asyncio.run(run()) == [expected["completion"]] * 4


def logprobs() -> None:
    """Return the record's, whole and by pieces."""
    given = client.completions.create(**ASK, logprobs=2).choices[0].logprobs
    assert given.token_logprobs == expected["logprobs"]
    assert "".join(given.tokens) == expected["completion"]
    assert all(2 <= len(one) <= 3 for one in given.top_logprobs)
    chunks = client.completions.create(**ASK, logprobs=2, stream=True)
    pieces = [c.logprobs.token_logprobs for chunk in chunks for c in chunk.choices if c.logprobs]
    assert [one for some in pieces for one in some] == expected["logprobs"]


def several() -> None:
    """Return the samples of `gpt2 generate -N 3`; several prompts, as texts and as ids."""
    done = client.completions.create(**ASK, n=3)
    assert [choice.text for choice in done.choices] == expected["samples"]
    for prompts in (["Once upon", "The fox"], expected["ids"]):
        done = client.completions.create(**{**ASK, "prompt": prompts})
        assert [choice.text for choice in done.choices] == expected["batch"]


def echo() -> None:
    """Score the prompt, as lm-evaluation-harness does."""
    ask = {**ASK, "max_tokens": 0, "prompt": expected["scored_ids"]}
    given = client.completions.create(**ask, echo=True, logprobs=0).choices[0]
    assert given.logprobs.token_logprobs[1:] == expected["scores"]
    assert client.completions.create(**ASK, echo=True).choices[0].text.startswith("Once upon")


def chat() -> None:
    """Reply whole and by pieces, at once and later, with one text."""
    done = client.chat.completions.create(**CHAT)
    text = done.choices[0].message.content
    assert text
    assert done.choices[0].message.role == "assistant"
    chunks = client.chat.completions.create(**CHAT, stream=True)
    assert "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices) == text
    reply = asyncio.run(reply_later())
    assert reply == text


async def reply_later() -> str:
    """Return the reply by the asynchronous client."""
    fresh: Any = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    return str((await fresh.chat.completions.create(**CHAT)).choices[0].message.content)


def models() -> None:
    """List and describe the model."""
    assert [model.id for model in client.models.list()] == ["starter"]
    assert client.models.retrieve("starter").id == "starter"


def raises(kind: Any, call: Callable[[], Any]) -> Any:
    """Return the exception of this type that a call raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def refusals() -> None:
    """Map onto the client's own exceptions."""
    error = raises(
        openai.BadRequestError, lambda: client.completions.create(**{**ASK, "temperature": -1})
    )
    assert (error.param, error.status_code) == ("temperature", 400)
    raises(openai.NotFoundError, lambda: client.completions.create(**{**ASK, "model": "gpt-4"}))
    raises(openai.NotFoundError, lambda: client.embeddings.create(model="starter", input="x"))
    wrong: Any = openai.OpenAI(base_url=f"{keyed}/v1", api_key="open", max_retries=0)
    raises(openai.AuthenticationError, lambda: wrong.completions.create(**ASK))
    assert closed.completions.create(**ASK).choices[0].text == expected["completion"]


def busy() -> None:
    """Refuse what is more than may wait, and run again when it is not."""
    first = closed.completions.create(**ENDLESS)
    next(iter(first))
    waiting = start_unread()
    error = raises(openai.RateLimitError, lambda: poll_busy())
    assert error.response.headers["retry-after"]
    first.close()
    waiting.close()
    text = retry(lambda: closed.completions.create(**ASK).choices[0].text)
    assert text == expected["completion"]


def start_unread() -> Any:
    """Send a request that waits for its turn; it is not read."""
    body = json.dumps({"prompt": "x", "max_tokens": 4000, "stream": True}).encode()
    headers = {"Authorization": "Bearer sesame", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(keyed.removeprefix("http://"))
    connection.request("POST", "/v1/completions", body, headers)
    return connection


def poll_busy() -> None:
    """Ask until there is no place: the one before may not have been read yet."""
    for _ in range(50):
        with closed.completions.create(**{**ENDLESS, "timeout": 0.3}):
            pass


def retry(call: Callable[[], Any]) -> Any:
    """Return what a call gives once it is not refused for want of room."""
    for _ in range(100):
        try:
            return call()
        except openai.RateLimitError:
            time.sleep(0.1)
    raise AssertionError("still busy")


def leaving() -> None:
    """Free the slot of a stream that is closed."""
    stream = client.completions.create(**ENDLESS)
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + 10
    while b"gpt2_slots_in_use 0\n" not in urllib.request.urlopen(f"{address}/metrics").read():
        assert time.monotonic() < deadline


def main() -> int:
    """Run all checks."""
    failed = 0
    checks = (
        *(completions, streamed, asynchronous, logprobs, several, echo, chat, models),
        *(refusals, busy, leaving),
    )
    for check in checks:
        try:
            check()
        except Exception:
            failed += 1
            print(f"{check.__name__}: {traceback.format_exc()}")
        else:
            print(f"{check.__name__}: ok")
    return 1 if failed else 0


if __name__ == "__main__":
    print(f"openai {openai.__version__}")
    sys.exit(main())
