"""Claims about downloads, and about those that go wrong: a local server and whole processes."""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from export.checkpoint import WEIGHTS_FILES
from gpt2cli.store.hub_files import WEIGHTS, HubFile, choose_files
from tests.checkpoints import CheckpointShape
from tests.hub_server import COMMIT, HubServer, serve_hub
from tests.model_folders import ModelFolders

_SHAPE = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=2000)
_REPO: Final = "somebody/gpt2-tiny"
_TIMEOUT: Final = 120
_AT_ONCE: Final = 10.0  # seconds; what is cut short here would take 30 or more

# What `--model REPO` does, without an engine: prints the commit and the notes.
_PROGRAM: Final = """
import json, sys
from gpt2cli.errors import Gpt2Error
from gpt2cli.store.store import Store
class Told:
    watched = False
    def __init__(self): self.notes = []
    def note(self, text): self.notes.append(text)
    def stage(self, text): pass
    def pause(self): pass
told = Told()
store = Store(listener=told)
try:
    model = (store.pull if sys.argv[2] == "pull" else store.find)(sys.argv[1])
    print(json.dumps({"commit": model.revision, "notes": told.notes}))
except Gpt2Error as error:
    print(json.dumps({"error": str(error)}))
"""


@dataclass(frozen=True)
class Outcome:
    """What one process said."""

    commit: str | None
    error: str | None
    seconds: float


@dataclass(frozen=True)
class Client:
    """Starts processes that look for the model, with an empty home of their own."""

    server: HubServer
    environment: dict[str, str]

    def start(self, *, offline: bool = False, verb: str = "find") -> subprocess.Popen[str]:
        environment = self.environment | ({"HF_HUB_OFFLINE": "1"} if offline else {})
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, _REPO, verb],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *, offline: bool = False, verb: str = "find") -> Outcome:
        started = time.monotonic()
        process = self.start(offline=offline, verb=verb)
        output, errors = process.communicate(timeout=_TIMEOUT)
        assert errors == ""
        said = json.loads(output)
        assert "\n" not in said.get("error", "")
        seconds = time.monotonic() - started
        return Outcome(said.get("commit"), said.get("error"), seconds)


@pytest.fixture
def server(model_folders: ModelFolders, tmp_path: pathlib.Path) -> Iterator[HubServer]:
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


@pytest.fixture
def client(server: HubServer, environment: dict[str, str]) -> Client:
    return Client(server, environment)


def _gpt2(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpt2cli", *arguments]


def _wait_for(server: HubServer, path: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not any(path in request for request in server.requests):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_download_killed_in_the_middle_is_completed(client: Client) -> None:
    """Kill -9 while the weights come: offline says what is missing, online goes on."""
    client.server.piece_seconds = 5.0
    process = client.start()
    _wait_for(client.server, "/cdn/")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    offline = client.run(offline=True)
    client.server.piece_seconds = 0
    online = client.run()
    assert offline.error is not None
    assert "incomplete: missing model.safetensors" in offline.error or (
        "is not on this machine" in offline.error
    )
    assert online.commit == COMMIT


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_ENDPOINT": "http://["}, "check HF_ENDPOINT"),
        ({"HF_HUB_ETAG_TIMEOUT": "soon"}, "check HF_ENDPOINT and the other variables"),
        ({"HF_TOKEN": "b\xe4d"}, "could not be downloaded"),
        # A proxy that is not there.
        (
            {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
            | {"NO_PROXY": "", "no_proxy": ""},
            "could not be downloaded",
        ),
    ],
    ids=["endpoint", "time-out", "token", "proxy"],
)
def test_a_variable_that_is_nonsense_is_one_line(
    client: Client, variables: dict[str, str], expected: str
) -> None:
    """Some stop huggingface_hub while it is imported."""
    client.environment.update(variables)
    assert expected in str(client.run().error)


def test_where_links_cannot_be_made_a_download_is_kept_once(
    client: Client, tmp_path: pathlib.Path
) -> None:
    """As on Windows: the snapshot holds the file itself, which is not fetched again."""
    client.environment["HF_HUB_DISABLE_SYMLINKS"] = "1"
    for _ in range(2):
        assert client.run(verb="pull").commit == COMMIT
    weights = (client.server.repositories[_REPO] / "model.safetensors").stat().st_size
    sizes = [path.stat().st_size for path in (tmp_path / "hf").rglob("*") if path.is_file()]
    assert sizes.count(weights) == 1
    assert sum("/cdn/" in request for request in client.server.requests) == 1


def test_processes_with_an_empty_cache_get_right_answers(client: Client) -> None:
    """Those who ask at the same moment share one export."""
    processes = [client.start() for _ in range(2)]
    said = [json.loads(process.communicate(timeout=_TIMEOUT)[0]) for process in processes]
    assert [answer.get("commit") for answer in said] == [COMMIT] * 2
    notes = [note for answer in said for note in answer["notes"]]
    assert sum("exporting" in note for note in notes) == 1


def test_the_hub_is_asked_for_the_weights_that_can_be_converted() -> None:
    """The same kinds in the same order of preference as where they are read."""
    assert [name for name, _ in WEIGHTS] == list(WEIGHTS_FILES)


def test_the_hub_is_asked_for_chat_templates() -> None:
    """In the file of today and in that of old processors; not for what nobody reads."""
    read = ("config.json", "tokenizer.json", "chat_template.jinja", "chat_template.json")
    listed = {name: HubFile(name, None, None) for name in (*read, "README.md")}
    chosen = choose_files(_REPO, listed, weights=False)
    assert {file.name for file in chosen} == set(read)


def test_a_download_ends_at_the_first_signal_and_the_next_one_goes_on(
    server: HubServer, environment: dict[str, str], tmp_path: pathlib.Path
) -> None:
    """The weights would take minutes; of what has come, nothing is fetched again."""
    server.piece_seconds = 5.0
    command = _gpt2("generate", "hello", "-m", _REPO)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait_for(server, "/cdn/")
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    output = process.communicate(timeout=_TIMEOUT)
    assert (process.returncode, output) == (128 + signal.SIGTERM, (b"", b""))
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
    code = process.wait(timeout=_TIMEOUT)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert code == 130
    assert time.monotonic() - started < _AT_ONCE
    assert b"Traceback" not in shown


def test_a_hub_that_is_silent_is_left_at_the_first_signal(
    server: HubServer, environment: dict[str, str]
) -> None:
    server.answer_seconds = 30.0
    process = subprocess.Popen(_gpt2("models", "pull", _REPO), env=environment)
    _wait_for(server, _REPO)
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    assert process.wait(timeout=_TIMEOUT) == 128 + signal.SIGTERM
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


def test_what_the_hub_is_asked_is_told_with_verbose(environment: dict[str, str]) -> None:
    """But not with which token."""
    environment["HF_TOKEN"] = "hush"
    pull = _gpt2("models", "pull", _REPO, "-v")
    told = subprocess.run(pull, env=environment, capture_output=True, text=True, check=True).stderr
    assert f"asking the hub for the files of {_REPO}, revision main\n" in told
    assert f"downloading model.safetensors of {_REPO}, " in told
    assert "hush" not in told
