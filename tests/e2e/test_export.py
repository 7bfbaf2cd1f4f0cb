"""`gpt2 export` and `python -m export`: the same folder, and it runs."""

import pathlib
from typing import Final

import pytest

import gpt2cli
from tests.e2e.program import Finished, Program
from tests.model_folders import ModelFolders

_STARTER: Final = pathlib.Path(gpt2cli.__file__).parent / "starter"


@pytest.fixture(scope="module")
def exported(program: Program, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the starter's model folder as `gpt2 export` wrote and fully checked it."""
    out = tmp_path_factory.mktemp("exported") / "model"
    done = program.run("export", "starter", str(out), "--check")
    assert done == Finished(0, b"", f"gpt2: wrote {out}\n")
    return out


def test_an_exported_folder_runs_as_the_model_it_is_of(
    program: Program, exported: pathlib.Path
) -> None:
    """Its text is the starter's own."""
    same = ("-n", "8", "--seed", "1", "-q", "Once")
    own, ours = (program.run("generate", "-m", name, *same) for name in ("starter", str(exported)))

    assert own == ours
    assert own.code == 0


def test_python_m_export_writes_the_same_graph_and_weights(
    program: Program, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Byte for byte, from the checkpoint's folder."""
    assert program.run_python("-m", "export", _STARTER, tmp_path / "model").code == 0

    for name in ("model.onnx", "model.onnx.data", "config.json", "tokenizer.json"):
        assert (exported / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_what_stands_there_is_replaced_only_by_force(
    program: Program, model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """A refusal is one line and changes nothing."""
    export = ("export", str(model_folders.checkpoint()), str(tmp_path / "model"), "--quiet")
    assert program.run(*export) == Finished(0, b"", "")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}

    refused = program.run(*export)

    assert (refused.code, refused.out) == (1, b"")
    assert refused.err.startswith("gpt2: error: ")
    assert "--force" in refused.err
    assert refused.err.count("\n") == 1
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert after == before
    assert program.run(*export, "--force") == Finished(0, b"", "")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
