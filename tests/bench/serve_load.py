"""Sets many clients with random lives upon `gpt2 serve`: `python -m tests.bench.serve_load`.

Starts two servers of the starter on this machine, one at a port and one at a Unix socket, and lets
clients ask, leave, stall, read slowly, send garbage and cancel for some minutes. What was seeded
has to be the text of `gpt2 batch` of the same prompt; no error may come that was not earned; at the
end no slot is in use, nothing waits, and the memory has stopped growing. Prints what it found, and
ends with 1 if something is wrong.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

_GPT2: Final = (sys.executable, "-m", "gpt2cli")
WORDS: Final = "Once upon a time there was little fox who saw the red ball and said to".split()  # noqa: SIM905
_ASKS: Final = 96  # different ones
_ENDLESS: Final = {"ignore_eos": True, "overflow": "slide", "max_tokens": 4000}
_SAMPLE_SECONDS: Final = 5.0
_MEGABYTE: Final = 2**20
_GARBAGE: Final[tuple[tuple[str, bytes, int], ...]] = (
    ("POST /v1/completions", b"{", 400),
    ("POST /v1/completions", b"[]", 400),
    ("POST /v1/completions", b"\xff\xfe", 400),
    ("POST /v1/completions", b'{"prompt": 1}', 400),
    ("POST /v1/completions", b'{"prompt": "x", "temperature": -1}', 400),
    ("POST /v1/completions", b'{"prompt": "x", "regex": "("}', 400),
    ("POST /v1/completions", b'{"prompt": "x", "model": "gpt-4"}', 404),
    ("POST /v1/completions", b'{"prompt": "' + b"x " * 5000 + b'"}', 400),
    ("POST /v1/chat/completions", b'{"messages": 1}', 400),
    ("GET /v1/completions", b"", 405),
    ("GET /no/such/path", b"", 404),
    ("POST /tokenize", b'{"prompt": 3}', 400),
    ("POST /gpt2/generate", b'{"prompt": "x", "options": {"top_p": 2}}', 400),
    ("POST /v1/completions", b"[" * 20000, 400),
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    process: "subprocess.Popen[str]"
    told: pathlib.Path  # what it writes to stderr
    path: str  # a Unix socket; "": at the port
    port: int

    async def connect(self, **how: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection."""
        if self.path:
            return await asyncio.open_unix_connection(self.path, **how)
        return await asyncio.open_connection("127.0.0.1", self.port, **how)

    @property
    def megabytes(self) -> float:
        """The memory that it has."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


@dataclass(slots=True)
class Tally:
    """What happened."""

    lives: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    same: dict[str, Any] = field(default_factory=dict)  # what is to be the same each time


Life = Callable[["Client"], Awaitable[None]]


@dataclass(slots=True)
class Client:
    """One life after the other, by its own random numbers."""

    server: Server
    asks: list[tuple[dict[str, Any], list[str]]]
    random: random.Random
    tally: Tally

    async def live(self, until: float) -> None:
        """Live until a time of the event loop's clock."""
        lives: dict[Life, int] = {
            Client.ask: 6, Client.stream: 6, Client.leave: 4, Client.leave_early: 3,
            Client.stall: 2, Client.dribble: 2, Client.send_garbage: 3, Client.send_noise: 1,
            Client.send_much: 1, Client.score: 2, Client.chat: 2, Client.cancel: 2,
        }  # fmt: skip
        while asyncio.get_running_loop().time() < until:
            [life] = self.random.choices([*lives], [*lives.values()])
            name = getattr(life, "__name__", "")
            try:
                async with asyncio.timeout(240):
                    await life(self)
            except Exception as error:
                self.tally.faults.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            self.tally.lives[name] += 1

    @contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        try:
            yield
        finally:
            writer.transport.abort() if self.random.random() < 0.3 else writer.close()

    async def _send(
        self, path: str, content: Any, **how: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.server.connect(**how)
        writer.write(frame(f"POST {path}", json.dumps(content).encode()))
        await writer.drain()
        return reader, writer

    async def _answer(self, path: str, content: Any) -> tuple[int, bytes]:
        reader, writer = await self._send(path, content)
        with self._closing(writer):
            return parse(await reader.read())

    def _check(self, texts: list[str], wanted: list[str]) -> None:
        if texts != wanted:
            raise AssertionError(f"expected {wanted!r}, found {texts!r}")

    async def ask(self) -> None:
        """Take whole answers."""
        ask, wanted = self.random.choice(self.asks)
        status, body = await self._answer("/v1/completions", ask)
        assert status == 200, (status, body)
        self._check([choice["text"] for choice in json.loads(body)["choices"]], wanted)

    async def stream(self) -> None:
        """Take an answer by pieces."""
        ask, wanted = self.random.choice(self.asks)
        status, body = await self._answer("/v1/completions", {**ask, "stream": True})
        assert status == 200, (status, body)
        self._check(join(body), wanted)

    async def leave(self) -> None:
        """Go away in the middle of a stream that has no end."""
        ask, _ = self.random.choice(self.asks)
        ask = {**ask, **_ENDLESS, "stream": self.random.random() < 0.7, "n": 1}
        reader, writer = await self._send("/v1/completions", ask)
        with self._closing(writer):
            if ask["stream"]:
                await reader.read(self.random.randrange(1, 3000))
            else:
                await asyncio.sleep(self.random.uniform(0, 2))

    async def leave_early(self) -> None:
        """Go away before anything was answered."""
        ask, _ = self.random.choice(self.asks)
        _, writer = await self._send("/v1/completions", {**ask, **_ENDLESS})
        with self._closing(writer):
            await asyncio.sleep(self.random.choice([0, 0, 0.01, 0.3]))

    async def stall(self) -> None:
        """Stop reading for some seconds."""
        ask, wanted = self.random.choice(self.asks)
        reader, writer = await self._send("/v1/completions", {**ask, "stream": True}, limit=256)
        with self._closing(writer):
            first = await reader.read(100)
            await asyncio.sleep(self.random.uniform(1, 8))
            _, body = parse(first + await reader.read())
            self._check(join(body), wanted)

    async def dribble(self) -> None:
        """Send a request slowly, and read the answer so."""
        ask, wanted = self.random.choice(self.asks)
        reader, writer = await self.server.connect(limit=128)
        with self._closing(writer):
            body = json.dumps({**ask, "stream": True}).encode()
            request, told = frame("POST /v1/completions", body), b""
            for start in range(0, len(request), 40):
                writer.write(request[start : start + 40])
                await asyncio.sleep(0.01)
            while part := await reader.read(200):
                told += part
                await asyncio.sleep(0.005)
            self._check(join(parse(told)[1]), wanted)

    async def send_garbage(self) -> None:
        """Send what is no request, and be told so."""
        line, content, wanted = self.random.choice(_GARBAGE)
        reader, writer = await self.server.connect()
        with self._closing(writer):
            writer.write(frame(line, content))
            status, body = parse(await reader.read())
            assert status == wanted, (line, content[:40], status, body[:200])
            assert json.loads(body)["error"]["message"]

    async def send_noise(self) -> None:
        """Send what is no HTTP, half of it, or nothing."""
        reader, writer = await self.server.connect()
        with self._closing(writer):
            writer.write(
                self.random.choice(
                    (self.random.randbytes(200), b"POST /v1/completions HTTP/1.1\r\n", b"",
                     frame("POST /v1/completions", b'{"prompt": "x"}')[:-3])
                )
            )  # fmt: skip
            if self.random.random() < 0.5:
                writer.write_eof()
                await reader.read()

    async def send_much(self) -> None:
        """Send a body that is too long."""
        if self.random.random() < 0.9:
            return
        reader, writer = await self.server.connect()
        with self._closing(writer):
            writer.write(frame("POST /v1/completions", b" " * (11 * _MEGABYTE)))
            status, _ = parse(await reader.read())
            assert status == 413, status

    async def score(self) -> None:
        """Score a prompt; the last token's score is that of any other time."""
        ask = {"prompt": "Once upon a time", "max_tokens": 0, "echo": True, "logprobs": 0}
        status, body = await self._answer("/v1/completions", ask)
        found = json.loads(body)["choices"][0]["logprobs"]["token_logprobs"]
        assert (status, len(found)) == (200, 4)
        assert found[-1] == self.tally.same.setdefault("score", found[-1])

    async def chat(self) -> None:
        """Reply in a chat; the same each time."""
        ask = {"messages": [{"role": "user", "content": "Hello!"}], "seed": 3, "max_tokens": 12}
        status, body = await self._answer("/v1/chat/completions", ask)
        assert status == 200, (status, body)
        text = json.loads(body)["choices"][0]["message"]["content"]
        assert text == self.tally.same.setdefault("chat", text)

    async def cancel(self) -> None:
        """Ask as `gpt2 generate --server` does, and cancel."""
        identity = f"{self.random.getrandbits(64):x}"
        options = {"ignore_eos": True, "overflow": "slide", "max_new_tokens": 4000}
        reader, writer = await self._send(
            "/gpt2/generate", {"id": identity, "prompt": "x", "options": options}
        )
        with self._closing(writer):
            told = await reader.readuntil(b'"tokens"')
            await asyncio.sleep(self.random.uniform(0, 1))
            _, body = await self._answer("/gpt2/cancel", {"id": identity})
            assert json.loads(body) == {"cancelled": True}
            _, body = parse(told + await reader.read())
            last = json.loads(body.splitlines()[-2])
            assert last["record"]["finish_reason"] == "interrupted", last


def frame(line: str, body: bytes) -> bytes:
    """Return a request."""
    fields = ("Host: localhost", "Connection: close", "Content-Type: application/json")
    head = "\r\n".join((f"{line} HTTP/1.1", *fields, f"Content-Length: {len(body)}"))
    return f"{head}\r\n\r\n".encode() + body


def parse(answer: bytes) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), answer[:200]
    if b"transfer-encoding: chunked" in head.lower():
        whole = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
        body = whole
    return int(head.split()[1]), body


def join(body: bytes) -> list[str]:
    """Return the texts of a stream."""
    texts: dict[int, str] = collections.defaultdict(str)
    *events, end, last = body.decode().split("\n\n")
    assert (end, last) == ("data: [DONE]", ""), body[-300:]
    for event in events:
        for choice in json.loads(event.removeprefix("data: "))["choices"]:
            texts[choice["index"]] += choice["text"]
    return [texts[index] for index in sorted(texts)]


def make_asks(folder: pathlib.Path) -> list[tuple[dict[str, Any], list[str]]]:
    """Return requests, and the texts that `gpt2 batch` makes of them."""
    chance, asks = random.Random(1), []
    for number in range(_ASKS):
        words = " ".join(chance.choices(WORDS, k=chance.randrange(1, 30)))
        more: dict[str, Any] = chance.choice(
            [{}, {}, {"temperature": 0}, {"top_k": 0, "temperature": 1.2}, {"stop": [" the"]}]
        )
        count = chance.randrange(1, 50)
        asks.append({"prompt": words, "seed": number, "max_tokens": count, **more})
        asks[-1]["n"] = chance.choice([1, 1, 1, 3])
    file = folder / "asks.jsonl"
    names = {"max_tokens": "max_new_tokens", "n": "samples"}
    lines = [json.dumps({names.get(k, k): v for k, v in ask.items()}) for ask in asks]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [*_GPT2, "batch", "-m", "starter", "-q", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    texts: dict[int, list[str]] = collections.defaultdict(list)
    for record in map(json.loads, done.splitlines()):
        texts[record["index"]].append(record["completion"])
    first, samples = asks[0], str(asks[0]["n"])  # `generate` has the same text
    command = [*_GPT2, "generate", first["prompt"], "-m", "starter", "-q", "--json", "-N", samples]
    command += ["--seed", "0", "-n", str(first["max_tokens"])]
    for name, flag in (("temperature", "-t"), ("top_k", "-k")):
        command += [flag, str(first[name])] if name in first else []
    if "stop" not in first:
        done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert [json.loads(line)["completion"] for line in done.splitlines()] == texts[0]
    return [(ask, texts[index]) for index, ask in enumerate(asks)]


@contextmanager
def serving(folder: pathlib.Path, *, at_port: bool) -> Iterator[Server]:
    """Serve the starter, at a free port or a Unix socket."""
    name = "port" if at_port else "socket"
    path, told = folder / name, folder / f"{name}.told"
    where = ("--port", "0") if at_port else ("--unix", str(path))
    command = [*_GPT2, "serve", "-m", "starter", "--threads", "1", "--grace", "5", *where]
    with told.open("wb") as errors, subprocess.Popen(command, stderr=errors, text=True) as process:
        while not (line := told.read_text(encoding="utf-8")).endswith("\n"):
            assert process.poll() is None, "it did not start"
            time.sleep(0.1)
        port = int(line.rpartition(":")[2]) if at_port else 0
        try:
            yield Server(process, told, "" if at_port else str(path), port)
        finally:
            process.terminate()
            process.wait(120)


async def read_metrics(server: Server) -> dict[str, float]:
    """Return the metrics."""
    reader, writer = await server.connect()
    writer.write(frame("GET /metrics", b""))
    _, body = parse(await reader.read())
    writer.close()
    lines = [line.rpartition(" ") for line in body.decode().splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


async def watch(servers: list[Server], until: float) -> list[list[float]]:
    """Return the memory of each server, by and by."""
    sizes: list[list[float]] = [[] for _ in servers]
    while asyncio.get_running_loop().time() < until:
        for some, server in zip(sizes, servers, strict=True):
            some.append(round(server.megabytes, 1))
        await asyncio.sleep(_SAMPLE_SECONDS)
    return sizes


async def settle(server: Server) -> dict[str, float]:
    """Return the metrics once nothing runs, or what they are after a while."""
    deadline = time.monotonic() + 30
    while True:
        metrics = await read_metrics(server)
        idle = not metrics["gpt2_slots_in_use"] and not metrics["gpt2_waiting_requests"]
        if idle or time.monotonic() > deadline:
            return metrics
        await asyncio.sleep(0.2)


async def run(servers: list[Server], asks: Any, options: Any) -> dict[str, Any]:
    """Let the clients live, and return what there is to tell."""
    tally, until = Tally(), asyncio.get_running_loop().time() + options.seconds
    clients = [
        Client(servers[n % len(servers)], asks, random.Random(f"{options.seed} {n}"), tally)
        for n in range(options.clients)
    ]
    sizes, *_ = await asyncio.gather(
        watch(servers, until), *(client.live(until) for client in clients)
    )
    metrics = [await settle(server) for server in servers]
    return {
        "clients": options.clients,
        "seconds": options.seconds,
        "lives": dict(sorted(tally.lives.items())),
        "faults": collections.Counter(tally.faults).most_common(20),
        "megabytes": sizes,
        "metrics": metrics,
    }


def find_wrong(told: dict[str, Any]) -> list[str]:
    """Return what is wrong: faults, slots that are lost, memory that grows in the second half."""
    wrong = [f"{number} times {fault}" for fault, number in told["faults"]]
    for metrics, sizes in zip(told["metrics"], told["megabytes"], strict=True):
        for name in ("gpt2_slots_in_use", "gpt2_waiting_requests", "gpt2_failures_total"):
            wrong += [f"{name} {metrics[name]:g} at the end"] if metrics[name] else []
        half, last = sizes[len(sizes) // 2], max(sizes[-3:])
        wrong += [f"memory grew from {half} to {last} MB"] if last > half * 1.05 + 2 else []
    return wrong


def main() -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        asks = make_asks(pathlib.Path(folder))
        where = (True, False)
        servers = [stack.enter_context(serving(pathlib.Path(folder), at_port=one)) for one in where]
        told = asyncio.run(run(servers, asks, options))
        lines = [server.told.read_text(encoding="utf-8").splitlines() for server in servers]
    told["exit codes"] = [server.process.returncode for server in servers]
    wrong = find_wrong(told) + [f"exit code {code}" for code in told["exit codes"] if code]
    wrong += [line for some in lines for line in some[1:]]
    told["wrong"] = wrong
    text = json.dumps(told, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
