"""Claims about the cache of exported models."""

import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import onnxruntime
import pytest

from export.storage import Precision
from export.whole import replacing_folder
from gpt2cli.errors import ModelError
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.store.catalogue import list_cached
from gpt2cli.store.exports import check_again, export_once, find_exported, local_checkpoint
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.store.conftest import Told
from tests.model_folders import ModelFolders

_SHAPE = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=257)


@pytest.fixture
def checkpoint(model_folders: ModelFolders, tmp_path: pathlib.Path) -> pathlib.Path:
    return shutil.copytree(model_folders.checkpoint(_SHAPE), tmp_path / "checkpoint")


def _find(checkpoint: pathlib.Path) -> ModelFolder | None:
    return find_exported(local_checkpoint(checkpoint), "fp32")


def _export(checkpoint: pathlib.Path, told: Told) -> pathlib.Path:
    found = local_checkpoint(checkpoint)
    return export_once(found, "fp32", note=told.note, stage=told.stage).path


def test_the_second_time_nothing_is_exported(checkpoint: pathlib.Path, told: Told) -> None:
    """The same source gives the same folder, with a note only when it is made."""
    first = _export(checkpoint, told)
    second = _export(checkpoint, told)
    assert first == second
    assert len(told.notes) == 1
    assert "exporting checkpoint for its first use" in told.notes[0]


def test_what_the_export_notes_is_told(checkpoint: pathlib.Path, told: Told) -> None:
    """A word that ends a text, once, after the line that says what is done."""
    (checkpoint / "generation_config.json").write_text('{"eos_token_id": 0}')
    _export(checkpoint, told)
    _export(checkpoint, told)
    said = "generation_config.json: eos_token_id 0 is an ordinary word of the vocabulary, '!'"
    assert told.notes[1:] == [said]


def test_a_changed_checkpoint_is_exported_again_in_place_of_the_old_export(
    checkpoint: pathlib.Path, told: Told
) -> None:
    """As often as it is saved: a path and precision has one export, of the files as they are."""
    first = _export(checkpoint, told)
    for seconds in (1, 2, 3):
        os.utime(checkpoint / "config.json", (seconds, seconds))
        again = _export(checkpoint, told)
        assert read_model_folder(again).source == local_checkpoint(checkpoint).origin
        assert list(again.parent.glob("[!.]*")) == [again]
    assert again == first
    assert sum("its old export is replaced" in note for note in told.notes) == 3


def test_an_export_that_failed_leaves_the_old_one(checkpoint: pathlib.Path, told: Told) -> None:
    folder = _export(checkpoint, told)
    weights = checkpoint / "model.safetensors"
    content, times = weights.read_bytes(), weights.stat()
    weights.write_bytes(b"")
    with pytest.raises(ModelError):
        _export(checkpoint, told)
    weights.write_bytes(content)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert _find(checkpoint) == read_model_folder(folder)


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", ["model.onnx.data", "export.json", "tokenizer.json"])
def test_a_damaged_export_is_made_again(
    checkpoint: pathlib.Path, told: Told, name: str, cut: bool
) -> None:
    """A file in the cache that is cut or missing costs an export, not an error."""
    damaged = _export(checkpoint, told) / name
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    if not cut:
        damaged.unlink()
    assert _find(checkpoint) is None
    assert (_export(checkpoint, told) / name).stat().st_size == len(whole)
    assert any("is damaged; exporting it again" in note for note in told.notes)


def test_what_was_left_of_another_model_is_removed_unless_somebody_is_at_it(
    checkpoint: pathlib.Path, told: Told
) -> None:
    models = _export(checkpoint, told).parent
    dead = models / ".dead-fp32-0.abcdefgh.partial"
    dead.mkdir()
    shutil.rmtree(_export(checkpoint, told))
    with replacing_folder(models / "alive-fp32-1") as alive:
        _export(checkpoint, told)
        assert (dead.exists(), alive.exists()) == (False, True)


def test_a_bad_checkpoint_is_one_line_and_leaves_nothing(
    checkpoint: pathlib.Path, told: Told
) -> None:
    """The exporter's error comes through as a ModelError."""
    (checkpoint / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model\.safetensors") as caught:
        _export(checkpoint, told)
    assert "\n" not in str(caught.value)
    assert _find(checkpoint) is None


@pytest.mark.parametrize("name", ["cache", "cache/gpt2/models"])
def test_a_cache_that_cannot_be_written_moves_elsewhere_with_a_note(
    checkpoint: pathlib.Path,
    told: Told,
    home: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A file where one of its folders should be costs one line."""
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("in the way")
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    folder = _export(checkpoint, told)
    assert folder.is_relative_to(elsewhere)
    assert "cannot be written" in told.notes[0]
    assert [model.path for model in list_cached()] == [folder]
    assert _find(checkpoint) == read_model_folder(folder)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner")
def test_a_temporary_cache_that_others_can_write_is_not_read(
    checkpoint: pathlib.Path, told: Told, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have laid it there, with a model of their own."""
    monkeypatch.setattr("tempfile.tempdir", str(home))
    spare = home / f"gpt2-cache-{os.getuid()}"
    shutil.move(_export(checkpoint, told).parent, spare)
    assert len(list_cached()) == 1
    spare.chmod(0o777)
    assert list_cached() == []
    assert _find(checkpoint) is None


def test_no_place_at_all_is_one_line_that_says_what_to_set(
    checkpoint: pathlib.Path, told: Told, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the cache nor the temporary folder can be written."""
    (home / "cache").write_text("in the way")
    nowhere = home / "a file"
    nowhere.write_text("in the way too")
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))
    with pytest.raises(ModelError, match="set XDG_CACHE_HOME"):
        _export(checkpoint, told)


@pytest.mark.parametrize("precision", Precision)
def test_another_onnxruntime_is_checked_once_and_recorded(
    model_folders: ModelFolders, tmp_path: pathlib.Path, precision: Precision
) -> None:
    """A folder that another version passed runs the check of its precision, then says so itself."""
    path = shutil.copytree(model_folders(_SHAPE, precision=precision), tmp_path / "model")
    other = {"onnxruntime": "0.0.0", "provider": "CPUExecutionProvider"}
    _change_manifest(path, checked=[other])
    check_again(read_model_folder(path), "CPUExecutionProvider")
    here = (onnxruntime.__version__, "CPUExecutionProvider")
    assert read_model_folder(path).checked == (("0.0.0", "CPUExecutionProvider"), here)


def test_a_local_checkpoint_is_identified_by_path_sizes_and_times(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "a", ns=(7, 7))
    files = {"a": [3, 7]}
    assert local_checkpoint(tmp_path).origin == {"path": str(tmp_path.resolve()), "files": files}


def test_a_graph_that_is_wrong_here_is_refused(checkpoint: pathlib.Path, told: Told) -> None:
    """Changed weights do not pass for what the check was recorded of."""
    path = _export(checkpoint, told)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"layer_norm_epsilon": 0.5}))
    _change_manifest(path, checked=[], files={})
    with pytest.raises(ModelError, match="differ from the reference"):
        check_again(read_model_folder(path), "CPUExecutionProvider")


def _change_manifest(folder: pathlib.Path, **fields: object) -> None:
    manifest = json.loads((folder / "export.json").read_bytes())
    (folder / "export.json").write_text(json.dumps(manifest | fields))


@pytest.mark.parametrize("stage", ["reading", "writing", "checking"])
def test_after_a_kill_at_any_stage_the_next_start_works(
    checkpoint: pathlib.Path, told: Told, stage: str
) -> None:
    """Kill -9 leaves no lock and no half folder in the way."""
    program = (
        "import os, pathlib, signal, sys\n"
        "from gpt2cli.store.exports import export_once, local_checkpoint\n"
        "source = pathlib.Path(sys.argv[1])\n"
        "def stage(text):\n"
        "    if text.startswith(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "export_once(local_checkpoint(source), 'fp32', note=lambda text: None, stage=stage)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(checkpoint), stage], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert _find(checkpoint) is None
    folder = _export(checkpoint, told)
    assert [p.name for p in folder.parent.iterdir() if p.suffix == ".partial"] == []


def test_a_cache_that_holds_everything_needs_neither_writing_nor_a_check(
    checkpoint: pathlib.Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only cache with the export in it just works; the exporter is not even imported."""
    folder = _export(checkpoint, told)

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("os.mkdir", "os.rename", "os.replace", "os.unlink", "tempfile.mkdtemp"):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr("export.check.recheck", refuse)
    assert _export(checkpoint, told) == folder
    check_again(read_model_folder(folder), "CPUExecutionProvider")
