"""Claims about signals while the hub is asked, and about what it is asked, of whole programs."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.checkpoints import CheckpointShape
from tests.hub_server import HubServer, serve_hub
from tests.model_folders import ModelFolders

_SHAPE = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=2000)
_REPO: Final = "somebody/gpt2-tiny"
_HANGS_AFTER: Final = 60
_AT_ONCE: Final = 10.0  # seconds; what is cut short here would take 30 or more


@pytest.fixture
def server(model_folders: ModelFolders, tmp_path: pathlib.Path) -> Iterator[HubServer]:
    """Serve a small checkpoint."""
    repository = shutil.copytree(model_folders.checkpoint(_SHAPE), tmp_path / "repository")
    with serve_hub({_REPO: repository}) as running:
        yield running


@pytest.fixture
def environment(server: HubServer, tmp_path: pathlib.Path) -> dict[str, str]:
    """Return the environment of a program with an empty home, run by an agent."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))},
        "AI_AGENT": "somebody-s-agent",
        "HF_ENDPOINT": server.address,
        "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "NO_PROXY": "*",
    }


def _gpt2(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpt2cli", *arguments]


def _wait_for(server: HubServer, path: str) -> None:
    deadline = time.monotonic() + _HANGS_AFTER
    while not any(path in request for request in server.requests):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [("models", "pull"), ("generate", "hello", "-m")])
def test_a_download_ends_at_the_first_signal_and_the_next_one_goes_on(
    server: HubServer, environment: dict[str, str], tmp_path: pathlib.Path,
    command: tuple[str, ...], sent: signal.Signals,
) -> None:  # fmt: skip
    """The weights would take minutes; of what has come, nothing is fetched again."""
    server.piece_seconds = 5.0
    process = subprocess.Popen(
        _gpt2(*command, _REPO), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait_for(server, "/cdn/")
    process.send_signal(sent)
    started = time.monotonic()
    output = process.communicate(timeout=_HANGS_AFTER)

    assert (process.returncode, output) == (128 + sent, (b"", b""))
    assert time.monotonic() - started < _AT_ONCE
    [part] = tmp_path.rglob("*.incomplete")
    part.write_bytes((server.repositories[_REPO] / "model.safetensors").read_bytes()[:1000])

    server.piece_seconds = 0
    subprocess.run(_gpt2("models", "pull", _REPO), env=environment, capture_output=True, check=True)
    assert server.ranges == ["bytes=1000-"]
    assert not list(tmp_path.rglob("*.incomplete"))


def test_on_a_terminal_ctrl_c_ends_a_download_too(
    server: HubServer, environment: dict[str, str]
) -> None:
    """There a bar is drawn meanwhile."""
    server.piece_seconds = 5.0
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        _gpt2("models", "pull", _REPO), env=environment, stdin=theirs, stderr=theirs
    )
    os.close(theirs)
    _wait_for(server, "/cdn/")
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    code = process.wait(timeout=_HANGS_AFTER)
    shown = os.read(ours, 1 << 16)
    os.close(ours)

    assert code == 130
    assert time.monotonic() - started < _AT_ONCE
    assert b"Traceback" not in shown


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_hub_that_is_silent_is_left_at_the_first_signal(
    server: HubServer, environment: dict[str, str], sent: signal.Signals
) -> None:
    """As soon as it is asked."""
    server.answer_seconds = 3.0
    process = subprocess.Popen(_gpt2("models", "pull", _REPO), env=environment)
    _wait_for(server, _REPO)
    process.send_signal(sent)
    started = time.monotonic()

    assert process.wait(timeout=_HANGS_AFTER) == 128 + sent
    assert time.monotonic() - started < server.answer_seconds


def test_a_first_use_asks_the_hub_for_the_files_and_tells_it_nothing(
    server: HubServer, environment: dict[str, str]
) -> None:
    """Each request of `generate` with an empty cache; none names the agent that runs it."""
    command = _gpt2("generate", "hello", "-q", "-n", "1", "-m", _REPO)
    done = subprocess.run(command, env=environment, capture_output=True, check=True)

    assert done.stderr == b""
    files = f"/{_REPO}/resolve/{server.commit}"
    assert server.requests == [
        f"GET /api/models/{_REPO}/revision/main",
        f"HEAD {files}/config.json",
        f"GET {files}/config.json",
        f"HEAD {files}/tokenizer.json",
        f"GET {files}/tokenizer.json",
        f"GET {files}/model.safetensors",
        f"GET /cdn/{_REPO}/model.safetensors",
        f"HEAD {files}/model.safetensors",
    ]
    assert [agent for agent in server.agents if "agent" in agent] == []
