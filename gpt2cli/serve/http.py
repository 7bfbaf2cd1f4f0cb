"""HTTP beneath the endpoints: bodies within a limit, JSON, server-sent events, readers that go."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gpt2cli.openai.faults import Fault

MOST_BYTES: Final = 10 * 2**20  # of a body
_DRAINED: Final = 64 * 2**20  # of a longer one, so that its client hears why it is refused
_PATIENCE: Final = 60.0  # seconds without a reader, after which an answer is given up
# What a model writes may look like HTML; no browser shall guess that it is.
_UNGUESSED: Final = {"X-Content-Type-Options": "nosniff"}
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


async def read_body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        Fault: if it is too long.
        ClientDisconnect: if the client goes away.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= MOST_BYTES:
            parts.append(part)
        elif size > _DRAINED:
            break
    if size > MOST_BYTES:
        raise Fault(413, f"the body is longer than {MOST_BYTES} bytes", code="body_too_long")
    return b"".join(parts)


async def wait_until_gone(receive: Receive) -> None:
    """Wait until the client goes away; its body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class JSONAnswer(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def __init__(
        self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, status_code, {**_UNGUESSED, **(headers or {})})

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        return _encode(content).encode()


class EventStream(Response):
    """Server-sent events, each of them JSON, and [DONE] at the end as OpenAI's streams have it."""

    media_type = "text/event-stream"
    ending = "[DONE]"

    def __init__(self, events: AsyncGenerator[Any]) -> None:
        """`events` may raise a Fault, which is the last event."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=_UNGUESSED | headers)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as they come; a reader that takes nothing for long is given up."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    await _send_part(send, self.frame(_encode(event)))
            await _send_part(send, self.frame(self.ending))
        except Fault as fault:
            await _send_part(send, self.frame(_encode(self.tell(fault))))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def frame(self, data: str) -> str:
        """Return an event as it is sent."""
        return f"data: {data}\n\n"

    def tell(self, fault: Fault) -> Any:
        """Return what is sent of an error."""
        return fault.as_json


async def _send_part(send: Send, data: str) -> None:
    async with asyncio.timeout(_PATIENCE):
        await send({"type": "http.response.body", "body": data.encode(), "more_body": True})
