"""Measures `gpt2 serve` beside `gpt2 batch` and llama.cpp's server, in interleaved rounds.

`python -m tests.bench.serve_speed --output FILE [--llama PYTHON --gguf FILE]`: PYTHON has
llama-cpp-python with its server. The model is the starter. A round: all prompts by `gpt2 batch`, by
as many clients at once, and by one client in one request; then, with nothing else running, the
first token of a long prompt by one client, and one long completion. For both servers where there
are two; llama-cpp-python's answers one request after the other.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.measuring import describe_machine, write_json
from tests.bench.serve_load import WORDS, frame, parse

_GPT2: Final = (sys.executable, "-m", "gpt2cli")
_TOKENS: Final = 48  # of a completion
_LONG: Final = 200
_FIRSTS: Final = 10  # first tokens in a round
_PREFILL: Final = 'gpt2_seconds_total{phase="prefill"}'


async def ask(port: int, path: str, content: Any = None) -> bytes:
    """Return the body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    method = "GET" if content is None else "POST"
    writer.write(
        frame(f"{method} {path}", b"" if content is None else json.dumps(content).encode())
    )
    status, body = parse(await reader.read())
    writer.close()
    assert status == 200, body
    return body


async def complete(port: int, prompt: Any, **more: Any) -> int:
    """Return how many tokens were made."""
    content = {"prompt": prompt, "max_tokens": _TOKENS, "seed": 1, "temperature": 0.7, **more}
    count: int = json.loads(await ask(port, "/v1/completions", content))["usage"][
        "completion_tokens"
    ]
    return count


async def time_together(port: int, prompts: list[str]) -> float:
    """Return tokens per second of all prompts, each by a client of its own."""
    started = time.perf_counter()
    counts = await asyncio.gather(*(complete(port, prompt) for prompt in prompts))
    return sum(counts) / (time.perf_counter() - started)


async def time_one(port: int, prompt: Any, **more: Any) -> float:
    """Return tokens per second of one request."""
    started = time.perf_counter()
    return await complete(port, prompt, **more) / (time.perf_counter() - started)


async def time_first(port: int, prompt: str) -> float:
    """Return the seconds until the first piece of a stream is there."""
    content = {"prompt": prompt, "max_tokens": 2, "temperature": 0, "stream": True}
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame("POST /v1/completions", json.dumps(content).encode()))
    await reader.readuntil(b"data: {")
    seconds = time.perf_counter() - started
    await reader.read()
    writer.close()
    return seconds


async def time_firsts(port: int, prompts: list[str], *, ours: bool) -> dict[str, float]:
    """Return medians of the seconds until a first piece, and of those beyond the prefill."""
    seconds, beyond = [], []
    for prompt in prompts:
        before = await read_prefill(port) if ours else 0.0
        seconds.append(await time_first(port, prompt))
        if ours:
            beyond.append(seconds[-1] - (await read_prefill(port) - before))
    told = {"first_seconds": statistics.median(seconds)}
    return told | ({"beyond_prefill_seconds": statistics.median(beyond)} if ours else {})


async def read_prefill(port: int) -> float:
    """Return the seconds that prefills have taken so far."""
    lines = (await ask(port, "/metrics")).decode().splitlines()
    return float(next(line for line in lines if line.startswith(_PREFILL)).split()[-1])


def run_batch(file: pathlib.Path) -> float:
    """Return tokens per second, as the command tells, which does not count loading."""
    options = ["-m", "starter", "-n", str(_TOKENS), "--seed", "1", "-t", "0.7"]
    command = [*_GPT2, "batch", *options, str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"([\d.]+) tokens/s", told)
    assert found, told
    return float(found[1])


@contextlib.contextmanager
def starting(command: list[str]) -> Iterator[int]:
    """Start a server at a free port, which it is given, and wait until it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while True:
                try:
                    asyncio.run(ask(port, "/v1/models"))
                    break
                except (OSError, AssertionError):
                    assert process.poll() is None, f"{command[0]} did not start"
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(60)


def measure(
    servers: dict[str, int], prompts: list[str], long: list[str], file: pathlib.Path, more: Any
) -> dict[str, Any]:
    """Return what one round gives."""
    told: dict[str, Any] = {"batch": run_batch(file)}
    for name, port in servers.items():
        ours = name == "gpt2"
        told[name] = {"clients": asyncio.run(time_together(port, prompts))}
        if ours:
            told[name]["one request"] = asyncio.run(time_one(port, prompts))
        told[name] |= asyncio.run(time_firsts(port, long, ours=ours))
        told[name]["alone"] = asyncio.run(
            time_one(port, prompts[0], max_tokens=_LONG, temperature=0, **more.get(name, {}))
        )
    told["ratio"] = told["gpt2"]["clients"] / told["batch"]
    return told


def main() -> None:
    """Run all rounds, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path)
    options = parser.parse_args()
    chance = random.Random(0)
    prompts = [" ".join(chance.choices(WORDS, k=20)) for _ in range(options.prompts)]
    rounds = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = pathlib.Path(folder, "prompts.txt")
        file.write_text("".join(f"{prompt}\n" for prompt in prompts), encoding="utf-8")
        servers = {"gpt2": stack.enter_context(starting([*_GPT2, "serve", "-m", "starter", "-q"]))}
        if options.llama:
            command = [str(options.llama), "-m", "llama_cpp.server", "--n_ctx", "512"]
            command += ["--model", str(options.gguf), "--n_threads", "2"]
            servers["llama.cpp"] = stack.enter_context(starting(command))
        for _ in range(options.rounds):
            long = [" ".join(chance.choices(WORDS, k=100)) for _ in range(_FIRSTS)]
            rounds.append(measure(servers, prompts, long, file, {"gpt2": {"ignore_eos": True}}))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    told = {"prompts": len(prompts), "tokens": _TOKENS, "long": _LONG, "rounds": rounds}
    write_json(options.output, {**describe_machine(), **told})


if __name__ == "__main__":
    main()
