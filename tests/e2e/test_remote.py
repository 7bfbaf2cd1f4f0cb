"""`gpt2 generate --server`, with a server as a person starts it."""

import http.client
import json
import pathlib
import signal
from contextlib import closing
from typing import Final

from tests.e2e.program import HANGS_AFTER, Finished, Program, finish, press_ctrl_c, read_until
from tests.e2e.test_serve import serving

_STARTER: Final = ("generate", "-m", "starter", "--seed", "5")
_ENDLESS: Final = ("Once", "--ignore-eos", "--overflow", "slide", "-n", "4000")
_NO_ENGINE: Final = (
    "import sys\n"
    "from gpt2cli.__main__ import main\n"
    "sys.argv = ['gpt2', *{arguments!r}]\n"
    "try: main()\n"
    "finally: assert not {{'numpy', 'onnxruntime', 'tokenizers', 'rich'}} & {{*sys.modules}}"
)


def test_a_server_gives_what_a_local_run_gives_byte_for_byte(program: Program) -> None:
    """Text, records and errors, whatever the server's own options; nothing heavy is imported."""
    runs = (
        ("Once ", "-n", "9", "-N", "2"),
        ("Once", "-n", "9", "--json", "--logprobs", "1", "--stop", " was", "--ban", "a"),
        ("x", "--regex", "("),
        ("x", "-n", "600", "--overflow", "error"),
    )
    expected = [program.run(*_STARTER, *run) for run in runs]
    with serving(program, "--port", "0", "-t", "0.1", "--seed", "1") as (process, address):
        for run, wanted in zip(runs, expected, strict=True):
            assert program.run(*_STARTER, *run, "--server", address) == wanted
        arguments = [*_STARTER, *runs[1], "--server", address]
        light = program.run_python("-c", _NO_ENGINE.format(arguments=arguments))
        assert light == expected[1]
        process.send_signal(signal.SIGTERM)
        assert finish(process) == Finished(0, b"", "")


def test_ctrl_c_ends_it_on_the_server_too_and_what_was_made_is_kept(program: Program) -> None:
    """A record says so, and can be replayed; of a lost server too."""
    with serving(program, "--port", "0") as (process, address):
        server = {"GPT2_SERVER": address}
        with program.start(*_STARTER, *_ENDLESS, environment=server) as asking:
            begun = read_until(asking.stdout, b" ")
            press_ctrl_c(asking)
            done = finish(asking)
        assert (done.code, done.err, (begun + done.out)[-1:]) == (130, "", b"\n")
        with program.start(*_STARTER, *_ENDLESS, "--json", environment=server) as asking:
            wait_until_busy(address)
            press_ctrl_c(asking)
            done = finish(asking)
        assert (done.code, json.loads(done.out)["finish_reason"]) == (130, "interrupted")
        with program.start(*_STARTER, *_ENDLESS, environment=server) as asking:
            begun = read_until(asking.stdout, b" ")
            process.kill()
            done = finish(asking)
    assert (done.code, (begun + done.out)[-1:]) == (1, b"\n")
    assert done.err == f"gpt2: error: the connection to {address} was lost before the end\n"
    lost = program.run(*_STARTER, "x", environment=server)
    told = f"gpt2: error: no server listens at {address}; `gpt2 serve` starts one\n"
    assert lost == Finished(1, b"", told)


def test_a_unix_socket_and_a_key(program: Program, tmp_path: pathlib.Path) -> None:
    """The key comes from a file or a variable, and is never told."""
    path, key = tmp_path / "socket", tmp_path / "key"
    key.write_text("sesame\n")
    run = (*_STARTER, "x", "-n", "5")
    expected = program.run(*run)
    with serving(program, "--unix", str(path), "--api-key-file", str(key)) as (process, address):
        server = ("--server", address)
        assert program.run(*run, *server, "--api-key-file", str(key)) == expected
        assert program.run(*run, *server, environment={"GPT2_API_KEY": "sesame"}) == expected
        refused = program.run(*run, *server, environment={"GPT2_API_KEY": "open"})
        assert (refused.code, refused.out) == (1, b"")
        assert refused.err == (
            f"gpt2: error: the server at {address} refuses the key; give one by --api-key-file or "
            "GPT2_API_KEY\n"
        )
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0


def wait_until_busy(address: str) -> None:
    """Wait until something runs: a record shows nothing before it is whole."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=HANGS_AFTER)
    with closing(connection):
        metrics = b""
        while b"gpt2_slots_in_use 1\n" not in metrics:
            connection.request("GET", "/metrics")
            metrics = connection.getresponse().read()
