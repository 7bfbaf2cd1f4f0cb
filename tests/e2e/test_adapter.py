"""`--adapter` as a shell gives it: what is merged is told wherever the model is."""

import json
import pathlib
from typing import Any

import pytest

from tests.checkpoints import write_adapter
from tests.e2e.program import Program
from tests.model_folders import SMALL_SHAPE, ModelFolders


@pytest.fixture
def checkpoint(model_folders: ModelFolders) -> str:
    """Return a small checkpoint."""
    return str(model_folders.checkpoint())


@pytest.fixture
def adapter(tmp_path: pathlib.Path) -> str:
    """Return an adapter for it."""
    return str(write_adapter(tmp_path / "poet", n_embd=SMALL_SHAPE.n_embd))


def run(program: Program, *arguments: str, **environment: str) -> Any:
    """Return the record that a command prints."""
    done = program.run(*arguments, "--json", environment=environment)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_records_statistics_and_the_list_name_what_was_merged(
    fresh_program: Program, checkpoint: str, adapter: str
) -> None:
    """Twice means merged twice; without it the model is another one."""
    merged = [{"name": adapter, "revision": None}] * 2
    scored = ("score", "ab", "-m", checkpoint, "--stats", "--json")
    done = fresh_program.run(*scored, "--adapter", adapter, "--adapter", adapter)
    record, plain = json.loads(done.out), run(fresh_program, "score", "ab", "-m", checkpoint)
    assert record["adapters"] == merged
    assert f"model {checkpoint} + poet + poet, fp32" in done.err
    assert "adapters" not in plain
    assert record["total_logprob"] != plain["total_logprob"]
    table = fresh_program.run("models", "list").out.decode().splitlines()
    assert sorted(" + poet + poet " in line for line in table) == [False, False, True]
    shown = fresh_program.run("models", "show", checkpoint).out.decode()
    assert shown.splitlines().count(f"adapter  {adapter}") == 2


def test_export_stores_it_and_the_folder_takes_no_other(
    fresh_program: Program, checkpoint: str, adapter: str, tmp_path: pathlib.Path
) -> None:
    """What runs then names it too."""
    out = str(tmp_path / "out")
    assert fresh_program.run("export", checkpoint, out, "--adapter", adapter).code == 0
    record = run(fresh_program, "generate", "a", "-n", "1", "-m", out)
    assert record["adapters"] == [{"name": adapter, "revision": None}]
    refused = fresh_program.run("generate", "a", "-m", out, "--adapter", adapter)
    assert (refused.code, refused.err) == (
        2,
        "gpt2: error: --adapter: expected none: nothing can be merged into a model folder, "
        f"found {adapter}; name its checkpoint as the model, or export that with the adapter\n",
    )


def test_a_kept_adapter_belongs_to_the_model_kept_beside_it(
    fresh_program: Program, checkpoint: str, adapter: str
) -> None:
    """Another model on the command line leaves it out."""
    kept = {"GPT2_MODEL": checkpoint, "GPT2_ADAPTER": adapter}
    score = ("score", "ab")
    assert [a["name"] for a in run(fresh_program, *score, **kept)["adapters"]] == [adapter]
    assert "adapters" not in run(fresh_program, *score, "-m", checkpoint, **kept)


def test_an_adapter_that_does_not_fit_is_an_error_of_one_line(
    fresh_program: Program, checkpoint: str, tmp_path: pathlib.Path
) -> None:
    """With the folder of the adapter."""
    adapter = write_adapter(tmp_path / "poet", n_embd=8)
    done = fresh_program.run("score", "a", "-m", checkpoint, "--adapter", str(adapter), "-q")
    told = f"adapter {adapter}: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight has"
    assert (done.code, done.out, done.err.count("\n")) == (1, b"", 1)
    assert told in done.err
