"""Claims about `gpt2 batch --cluster`, with a Ray in this process; tests/interop has a real one."""

import dataclasses
import json
import os
import pathlib
import shutil
import socket
import sys
import types

import pytest
from typer.testing import Result

from gpt2cli.batch.cluster import run as cluster_run
from gpt2cli.batch.cluster.folders import read_pieces
from gpt2cli.batch.cluster.messages import Lacking, Ready, Refused, Setup
from gpt2cli.batch.cluster.worker import Worker
from gpt2cli.errors import ModelError
from tests.gpt2cli.batch.cluster.fake_ray import FakeRay
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

_LINES = (
    '{"prompt": "z", "max_new_tokens": 9, "samples": 2}',
    "{bad",
    "",
    '{"prompt": "zz", "id": 7}',
    '{"prompt": "z", "beams": 2}',
    json.dumps({"prompt": "z" * (1 << 20)}),
    '{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "z"}}',
    '{"custom_id": "b", "method": "POST", "url": "/v1/completions", "body": {"prompt": ["z", '
    '"zz"], "n": 2, "max_tokens": 3, "model": "./model"}}',
)
_RECORDS = "\n".join([*_LINES, *(json.dumps({"prompt": "z", "id": n}) for n in range(20))])


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "")  # which is put back at the end
    return fake


@pytest.fixture
def model(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def run(model: pathlib.Path, folder: pathlib.Path, *options: str) -> Result:
    (folder / "in").write_text(_RECORDS)
    same = ("--jsonl", "-m", model, "-n", "6", "--seed", "3", "--batch-size", "2")
    return invoke("batch", folder / "in", *same, *options)


@pytest.mark.parametrize("form", ["jsonl", "text"])
@pytest.mark.parametrize("deaths", [(), (1, 4, 6)], ids=["quiet", "deaths"])
def test_its_bytes_are_those_of_one_process(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path, form: str, deaths: tuple[int, ...]
) -> None:
    """Output and journal, errors and samples, also where workers die; the exit code too."""
    ray._deaths = deaths
    out = str(tmp_path / "out")
    codes = [
        run(model, tmp_path, "-o", out + name, "--format", form, *more).exit_code
        for name, more in (("here", []), ("there", ["--cluster", "local"]))
    ]
    assert codes == [1, 1]
    for ending in ("", ".resume.json"):
        here, there = (pathlib.Path(out + n + ending).read_bytes() for n in ("here", "there"))
        assert here == there
    assert len(ray.actors) == 2
    assert not ray.joined


def test_a_run_is_gone_on_with_by_a_cluster_or_without(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out, journal = tmp_path / "out", tmp_path / "out.resume.json"
    run(model, tmp_path, "-o", str(out))
    whole = out.read_bytes(), journal.read_bytes()
    for options in ([], ["--cluster", "local"]):
        out.write_bytes(b"".join(whole[0].splitlines(keepends=True)[:9])[:-5])
        run(model, tmp_path, "-o", str(out), "--resume", *options)
        assert (out.read_bytes(), journal.read_bytes()) == whole


def test_results_on_stdout_have_nothing_of_ray_among_them(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shown = run(model, tmp_path, "--cluster", "local", "--stats", "-q")
    assert shown.stdout == run(model, tmp_path).stdout
    told = shown.stderr.splitlines()
    assert any(line.startswith("worker 2 on ") and "1 thread, batch" in line for line in told)
    assert "seed 3" in told


def test_no_usage_is_reported_and_a_cluster_of_ones_own_has_a_small_store(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(ray, "shutdown", lambda: seen.append(ray.joined.pop()))
    run(model, tmp_path, "--cluster", "local")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert seen[0]["object_store_memory"] == 1 << 28
    assert seen[0]["include_dashboard"] is False


def test_without_ray_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "")
    result = run(model, tmp_path, "--cluster", "local")
    assert result.exit_code == 1
    told = "--cluster: it needs Ray, which is not installed; pip install 'gpt2[cluster]'"
    assert error_line(result) == told


def test_an_address_that_nobody_answers_is_one_line(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for written in (address, f"ray://{address}"):
            result = run(model, tmp_path, "--cluster", written)
            assert result.exit_code == 2
            told = error_line(result)
            assert told.startswith(f"--cluster: nobody answers at {written}: ")
    result = run(model, tmp_path, "--cluster", "somewhere")
    told = "--cluster: expected auto, local, HOST:PORT or ray://HOST:PORT, found somewhere"
    assert error_line(result) == told


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_cluster_of_this_machine_that_has_ended_is_one_line(
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    model: pathlib.Path,
    tmp_path: pathlib.Path,
    by_variable: bool,
) -> None:
    """Ray itself waits for it for minutes."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        if by_variable:
            monkeypatch.setenv("RAY_ADDRESS", address)
        else:
            utils = types.SimpleNamespace(read_ray_address=lambda: address)
            ray._private = types.SimpleNamespace(utils=utils)
        result = run(model, tmp_path, "--cluster", "auto")
    assert error_line(result).startswith(f"--cluster: nobody answers at {address}: ")


def test_a_cluster_with_another_version_of_ray_is_refused(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ray.failure = RuntimeError("Version mismatch: The cluster has:\n    Ray: 1.0\nThis: 2.0\n\n")
    result = run(model, tmp_path, "--cluster", "auto")
    told = "--cluster: Version mismatch: The cluster has: Ray: 1.0 This: 2.0"
    assert (result.exit_code, error_line(result)) == (2, told)


def test_a_cluster_without_room_for_a_worker_is_refused(
    ray: FakeRay, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    result = run(model, tmp_path, "--cluster", "local", "--cpus-per-worker", "2")
    assert result.exit_code == 2
    told = "--cluster: expected a machine of 2 CPU cores in the cluster, for one worker"
    assert error_line(result).startswith(told)


def make_setup(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> Setup:
    """Return the setup that the command makes for a model folder."""
    made: list[Setup] = []

    class KeptError(Exception):
        pass

    def keep(ray: object, config: object, setup: Setup) -> None:
        made.append(setup)
        raise KeptError

    monkeypatch.setattr(cluster_run, "RayWorkers", keep)
    with pytest.raises(KeptError):
        run(folder, folder.parent, "--cluster", "local")
    return made[0]


def test_a_machine_without_the_folder_is_sent_it_once(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It keeps the folder, whole, where no other user can write; a damaged one is refused."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    moved = pathlib.Path(shutil.copytree(model, tmp_path / "moved"))
    setup = make_setup(monkeypatch, moved)
    pieces = list(read_pieces(setup.stored.folder))
    moved.rename(tmp_path / "gone")
    for spoilt in (True, False):
        worker = Worker(setup)
        assert isinstance(worker.open(), Lacking)
        for name, data in pieces:
            worker.receive((name, data[:-1] + b"x" if spoilt and "data" in name else data))
        if spoilt:
            with pytest.raises(ModelError, match="which was sent, is damaged"):
                worker.finish_folder()
        else:
            worker.finish_folder()
            assert isinstance(worker.open(), Ready)
    assert isinstance(Worker(setup).open(), Ready)


def test_a_worker_of_another_version_refuses_for_all(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, model: pathlib.Path
) -> None:
    setup = dataclasses.replace(make_setup(monkeypatch, model), version="0.0.1")
    refused = Worker(setup).open()
    assert isinstance(refused, Refused)
    assert refused.for_all
    assert "has gpt2 " in refused.reason
    assert ", this machine 0.0.1; install the same on both" in refused.reason
