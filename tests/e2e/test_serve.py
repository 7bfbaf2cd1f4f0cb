"""The server as a person starts it, over real sockets."""

import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pytest

from tests.e2e.program import Finished, Program, finish, press_ctrl_c, read_until

_README: Final = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_ENDLESS: Final[dict[str, Any]] = {
    "prompt": "x",
    "ignore_eos": True,
    "overflow": "slide",
    "max_tokens": 4000,
}


@contextmanager
def serving(program: Program, *options: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Serve the starter; gives the process and the address that it tells."""
    with program.start("serve", "-m", "starter", *options) as process:
        line = read_until(process.stderr, b"\n").decode()
        found = re.fullmatch(r"gpt2: serving starter \(fp32 on cpu\) at (\S+)\n", line)
        assert found, line
        yield process, found[1]


@contextmanager
def asking(address: str, **fields: Any) -> Iterator[http.client.HTTPResponse]:
    """Send a request for completions; gives the response, whose body can be read."""
    host = address.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request("POST", "/v1/completions", json.dumps(fields))
        with connection.getresponse() as response:
            yield response


def ask(address: str, **fields: Any) -> tuple[int, str]:
    """Return the status and the body."""
    with asking(address, **fields) as response:
        return response.status, response.read().decode()


def send_garbage(address: str) -> None:
    """Send what is no HTTP, half a request, and nothing at all."""
    host, port = address.removeprefix("http://").split(":")
    for garbage in (b"\x16\x03\x01\x00\xff\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\n", b""):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(garbage)


def test_a_server_gives_the_text_of_generate_and_ends_quietly(program: Program) -> None:
    """Whatever else it was sent before."""
    options = ["Once upon", "-m", "starter", "--seed", "6", "-n", "30", "--no-echo", "-q"]
    expected = program.run("generate", *options).out.decode()
    with serving(program, "--port", "0") as (process, address):
        assert not address.endswith(":0")
        send_garbage(address)
        fields: dict[str, Any] = {"prompt": "Once upon", "seed": 6, "max_tokens": 30}
        status, answer = ask(address, **fields)
        assert (status, json.loads(answer)["choices"][0]["text"] + "\n") == (200, expected)
        _, stream = ask(address, **fields, stream=True)
        assert stream.endswith("data: [DONE]\n\n")
        process.send_signal(signal.SIGTERM)
        assert finish(process) == Finished(0, b"", "")


def test_a_limit_below_what_is_usual_is_what_a_request_gets(program: Program) -> None:
    with serving(program, "--port", "0", "--max-tokens-limit", "5") as (process, address):
        status, answer = ask(address, prompt="Once", ignore_eos=True)
        assert (status, json.loads(answer)["usage"]["completion_tokens"]) == (200, 5)
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="not installed")
def test_the_readmes_requests_are_answered_as_it_shows(program: Program) -> None:
    """Each line by itself; what a comment shows is its output, the drawn text only its form."""
    [block] = re.findall(r"^```sh\n(curl .*?)^```$", _README, flags=re.M | re.S)
    with serving(program, "--port", "0") as (process, address):
        lines = block.replace("http://127.0.0.1:8080", address).replace("gpt2 rep", '"$GPT2" rep')
        text, stream, replayed = (
            program.run_shell(line).out.decode()
            for line in lines.splitlines()
            if not line.startswith("#")
        )
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0
    assert text.startswith(" a time")
    assert stream.endswith("data: [DONE]\n\n")
    assert replayed == "0: same\n0 sample 1: same\n"


def test_the_readmes_line_for_a_server_writes_what_it_shows(program: Program) -> None:
    """With the beginning that every kind of processor draws."""
    [line] = re.findall(r"^```sh\n(gpt2 .*?--server \S+)$", _README, flags=re.M | re.S)
    with serving(program, "--port", "0") as (process, address):
        line = line.replace("http://127.0.0.1:8080", address)
        done = program.run_shell(line.replace("gpt2", '"$GPT2"', 1))
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0
    assert done.code == 0
    assert done.out.startswith(b"Once upon a time")


def test_ctrl_c_lets_a_stream_finish_within_the_grace_and_a_second_one_ends_it(
    program: Program,
) -> None:
    """With no time it is cut, and still whole: its last event has a reason."""
    with (
        serving(program, "--port", "0", "--grace", "0") as (process, address),
        asking(address, **_ENDLESS, stream=True) as reply,
    ):
        reply.readline()
        press_ctrl_c(process)
        *_, last, done, _ = reply.read().decode().split("\n\n")
        assert done == "data: [DONE]"
        [choice] = json.loads(last.strip().removeprefix("data: "))["choices"]
        assert choice["finish_reason"] == "length"
        assert choice["gpt2"]["finish_reason"] == "interrupted"
        assert finish(process).code == 0
    with (
        serving(program, "--port", "0") as (process, address),
        asking(address, **_ENDLESS, stream=True) as reply,
    ):
        reply.readline()
        press_ctrl_c(process)
        assert b"finishing what runs" in read_until(process.stderr, b"\n")
        status, refused = ask(address, prompt="x")
        assert (status, json.loads(refused)["error"]["code"]) == (503, "shutting_down")
        press_ctrl_c(process)
        assert finish(process).code == 130


def test_a_unix_socket_is_its_owners_and_is_gone_at_the_end(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """It answers there as it does at a port."""
    path = tmp_path / "socket"
    with serving(program, "--unix", str(path)) as (process, address):
        assert address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert read_all(client).endswith(b'{"status":"ready"}')
        process.send_signal(signal.SIGTERM)
        assert finish(process) == Finished(0, b"", "")
    assert not path.exists()


def read_all(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def test_a_server_whose_files_are_all_taken_goes_on_when_they_are_free(program: Program) -> None:
    """By connections here; it says so in one line, though nobody reads what it writes."""
    line = 'ulimit -n 64; exec "$GPT2" serve -m starter --port 0'
    with program.start_shell(line) as process:
        address = read_until(process.stderr, b"\n").decode().split()[-1]
        host, port = address.removeprefix("http://").split(":")
        taken = [socket.create_connection((host, int(port))) for _ in range(100)]
        told = read_until(process.stderr, b"\n")
        for one in taken:
            one.close()
        assert ask(address, prompt="x", max_tokens=1)[0] == 200
        process.send_signal(signal.SIGTERM)
        assert (told, finish(process)) == (
            b"gpt2: a connection failed: Too many open files\n",
            Finished(0, b"", ""),
        )
