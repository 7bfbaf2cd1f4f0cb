"""A client of an ASGI application, without a socket: it can stop reading, and go away."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass
class Reply:
    """What an application answers."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str | None, str]:
        """The status of an error, the field that it names, and its message."""
        told = self.json["error"]
        assert told.keys() == {"message", "type", "param", "code"}
        return self.status, told["param"], told["message"]

    @property
    def events(self) -> Sequence[Any]:
        """The events of a stream; its end is None."""
        assert self.headers["content-type"].startswith("text/event-stream")
        *lines, last = self.body.decode().split("\n\n")
        assert last == ""
        told = [line.removeprefix("data: ") for line in lines]
        return [None if one == "[DONE]" else json.loads(one) for one in told]


async def ask(
    app: ASGIApp,
    path: str,
    content: Any = None,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
    gone: asyncio.Event | None = None,
    reads: asyncio.Event | None = None,
    whole: bool = True,
) -> Reply:
    """Send a request, JSON or plain `body`; the client goes away when `gone` is set.

    `whole`: the body is; else more of it is to come.
    It takes nothing of a body until `reads` is set.
    """
    sent = body if body is not None else b"" if content is None else json.dumps(content).encode()
    given = {"host": "127.0.0.1:8080", **(headers or {})}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method or ("POST" if sent else "GET"),
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 1),
    }
    reply, leaves = Reply(), gone or asyncio.Event()
    messages: list[Message] = [{"type": "http.request", "body": sent, "more_body": not whole}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            found = message.get("headers", [])
            reply.headers = {name.decode(): value.decode() for name, value in found}
        else:
            if reads is not None:
                await reads.wait()
            reply.body += message.get("body", b"")

    await app(scope, receive, send)
    return reply
