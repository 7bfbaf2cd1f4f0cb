"""`gpt2 export` and `python -m export`: the same folder, and it runs."""

import json
import pathlib

from tests.e2e.program import Finished, Program
from tests.model_folders import ModelFolders


def test_an_exported_folder_runs_as_the_model_it_is_of(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """Its text is the starter's own; spaces, markup and letters beyond ASCII in its name stay."""
    name = str(tmp_path / "[bold] é")
    assert program.run("export", "starter", name) == Finished(0, b"", f"gpt2: wrote {name}\n")
    same = ("-n", "8", "--seed", "1", "-q", "--json", "Once")
    own, ours = (program.run("generate", "-m", model, *same) for model in ("starter", name))
    assert (own.code, ours.code, ours.err) == (0, 0, "")
    assert json.loads(ours.out) == {**json.loads(own.out), "model": name}


def test_python_m_export_is_gpt2_export(
    program: Program, model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Options and names reach it; the graph and the weights are the same, and the exit codes."""
    source, options = str(model_folders.checkpoint()), ("--precision", "int8", "--check")
    one, other = tmp_path / "one", tmp_path / "other"
    done = program.run_python("-m", "export", source, one, *options)
    assert done == Finished(0, b"", f"gpt2: wrote {one}\n")
    assert program.run("export", source, str(other), *options, "-q") == Finished(0, b"", "")
    for name in ("model.onnx", "model.onnx.data", "config.json", "tokenizer.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert '"precision": "int8"' in (one / "export.json").read_text(encoding="utf-8")
    assert program.run_python("-m", "export", tmp_path, tmp_path / "third").code == 1
    assert program.run_python("-m", "export", "--nonsense").code == 2


def test_what_stands_there_is_replaced_only_by_force(
    program: Program, model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """A refusal is one line and changes nothing."""
    export = ("export", str(model_folders.checkpoint()), str(tmp_path / "model"), "--quiet")
    assert program.run(*export) == Finished(0, b"", "")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    refused = program.run(*export)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, b"", 1)
    assert refused.err.startswith("gpt2: error: ")
    assert "--force" in refused.err
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert after == before
    assert program.run(*export, "--force") == Finished(0, b"", "")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
