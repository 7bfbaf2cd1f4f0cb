"""Claims about `--adapter` of every command: what is merged is told wherever the model is."""

import json
import pathlib
from typing import Any

import pytest

from tests.checkpoints import write_adapter
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import SMALL_SHAPE, ModelFolders


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test as a user who never ran the program."""
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def checkpoint(model_folders: ModelFolders) -> str:
    """Return a small checkpoint."""
    return str(model_folders.checkpoint())


@pytest.fixture
def adapter(tmp_path: pathlib.Path) -> str:
    """Return an adapter for it."""
    return str(write_adapter(tmp_path / "poet", n_embd=SMALL_SHAPE.n_embd))


def run(*arguments: str) -> Any:
    """Return the record that a command prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_records_statistics_and_the_list_name_what_was_merged(
    checkpoint: str, adapter: str
) -> None:
    """Twice means merged twice; without it the model is another one."""
    merged = [{"name": adapter, "revision": None}] * 2
    scored = ("score", "ab", "-m", checkpoint, "--stats", "--json")
    done = invoke(*scored, "--adapter", adapter, "--adapter", adapter)
    record, plain = json.loads(done.stdout), run("score", "ab", "-m", checkpoint)
    assert record["adapters"] == merged
    assert f"model {checkpoint} + poet + poet, fp32" in done.stderr
    assert "adapters" not in plain
    assert record["total_logprob"] != plain["total_logprob"]
    table = invoke("models", "list").stdout.splitlines()
    assert sorted(" + poet + poet " in line for line in table) == [False, False, True]
    shown = invoke("models", "show", checkpoint).stdout
    assert shown.splitlines().count(f"adapter  {adapter}") == 2


def test_export_stores_it_and_the_folder_takes_no_other(
    checkpoint: str, adapter: str, tmp_path: pathlib.Path
) -> None:
    """What runs then names it too."""
    out = str(tmp_path / "out")
    assert invoke("export", checkpoint, out, "--adapter", adapter).exit_code == 0
    record = run("generate", "a", "-n", "1", "-m", out)
    assert record["adapters"] == [{"name": adapter, "revision": None}]
    refused = invoke("generate", "a", "-m", out, "--adapter", adapter)
    assert (refused.exit_code, error_line(refused)) == (
        2,
        "--adapter: expected none: nothing can be merged into a model folder, "
        f"found {adapter}; name its checkpoint as the model, or export that with the adapter",
    )


def test_a_kept_adapter_belongs_to_the_model_kept_beside_it(
    checkpoint: str, adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another model on the command line leaves it out."""
    monkeypatch.setenv("GPT2_MODEL", checkpoint)
    monkeypatch.setenv("GPT2_ADAPTER", adapter)
    assert [a["name"] for a in run("score", "ab")["adapters"]] == [adapter]
    assert "adapters" not in run("score", "ab", "-m", checkpoint)


def test_an_adapter_that_does_not_fit_is_an_error_of_one_line(
    checkpoint: str, tmp_path: pathlib.Path
) -> None:
    """With the folder of the adapter."""
    adapter = write_adapter(tmp_path / "poet", n_embd=8)
    done = invoke("score", "a", "-m", checkpoint, "--adapter", adapter, "-q")
    told = f"adapter {adapter}: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight has"
    assert done.exit_code == 1
    assert told in error_line(done)
