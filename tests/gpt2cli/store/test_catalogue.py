"""Claims about listing, describing and removing what is in the cache."""

import errno
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest

from gpt2cli.doctor.diagnosis import check_models
from gpt2cli.errors import ModelError
from gpt2cli.store.catalogue import describe_model, find_cached, list_cached, remove_cached
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import Store
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.store.conftest import Told
from tests.hub_server import COMMIT, OTHER_COMMIT, serve_hub
from tests.killing import killed_everywhere
from tests.model_folders import ModelFolders

_SHAPE = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=257)
_REPO = "openai-community/gpt2"

pytestmark = pytest.mark.usefixtures("starter_checkpoint")


@pytest.fixture
def checkpoint(model_folders: ModelFolders, told: Told) -> pathlib.Path:
    """Return a checkpoint whose export is in the cache."""
    path = model_folders.checkpoint(_SHAPE)
    Store(listener=told).find(str(path))
    return path


def test_a_listed_model_tells_its_source_precision_and_real_size(checkpoint: pathlib.Path) -> None:
    """The size is the sum of its files' bytes."""
    [model] = list_cached()
    assert (model.name, model.revision) == (str(checkpoint.resolve()), None)
    assert (model.precision, model.fault) == ("fp32", None)
    assert model.size == sum(f.stat().st_size for f in model.path.iterdir())


def test_a_damaged_model_is_listed_with_its_fault_and_can_be_removed(
    checkpoint: pathlib.Path,
) -> None:
    [model] = list_cached()
    (model.path / "model.onnx").write_bytes(b"")
    [damaged] = list_cached()
    assert damaged.fault is not None
    assert "model.onnx" in damaged.fault
    assert (damaged.name, damaged.precision) == (model.name, model.precision)
    with pytest.raises(ModelError, match=r"model\.onnx"):
        describe_model(damaged)
    remove_cached(find_cached(damaged.name))
    assert list_cached() == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"[" * 100_000,
        b"\xff\xfe{\0",
        b'{"graph_version": ' + b"9" * 5000 + b"}",
        b'{"graph_version": 3, "source": {"repo": ["x"], "commit": 7}, "precision": {}}',
        b'{"graph_version": [[]], "source": [], "precision": "fp32"}',
    ],
    ids=["missing", "deep", "utf-16", "digits", "types", "version"],
)
def test_a_hostile_folder_leaves_the_others_alone_and_can_be_removed(
    checkpoint: pathlib.Path, content: bytes | None
) -> None:
    """Listed by its folder's name, looked at by the doctor, removed by rm."""
    [good] = list_cached()
    hostile = good.path.with_name("hostile")
    hostile.mkdir()
    if content is not None:
        (hostile / "export.json").write_bytes(content)
    listed = {model.path.name: model.fault for model in list_cached()}
    checked = {pathlib.Path(m.path).name: m.fault for m in check_models(verify=True)}
    told = "no export.json" if content is None else "export again"
    assert told in str(listed.pop("hostile"))
    assert told in str(checked.pop("hostile"))
    assert listed == checked == {good.path.name: None}
    remove_cached(find_cached("hostile"))
    assert list_cached() == [good]


def test_what_a_running_export_has_so_far_is_no_model(checkpoint: pathlib.Path) -> None:
    """Nor is a manifest that is being replaced counted, which may vanish at any moment."""
    [model] = list_cached()
    shutil.copytree(model.path, model.path.with_name(f".{model.path.name}.x.partial"))
    (model.path / ".export.json.1").write_bytes(b"x" * 1000)
    assert list_cached() == [model]


def test_a_removal_that_was_cut_leaves_no_model(
    checkpoint: pathlib.Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(path: pathlib.Path, **options: bool) -> None:
        if not options:
            raise OSError(errno.EIO, "cut")

    with monkeypatch.context() as patch, pytest.raises(ModelError, match=r"cannot remove .*: cut"):
        patch.setattr(shutil, "rmtree", cut)
        remove_cached(list_cached())
    assert list_cached() == []

    path = Store(listener=told).find(str(checkpoint)).folder.path
    assert list(path.parent.glob(".*.partial")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
def test_a_removal_that_is_killed_leaves_the_model_whole_or_none(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """At any step; what is left of it goes with the next removal."""
    [model] = list_cached()
    kept = shutil.copytree(model.path, tmp_path / "kept")

    def prepare() -> None:
        if not model.path.exists():
            shutil.copytree(kept, model.path)

    for _ in killed_everywhere(prepare, lambda: remove_cached([model])):
        assert list_cached() in ([model], [])
        prepare()
        remove_cached([model])
        assert list(model.path.parent.glob(".*.partial")) == []


def test_a_folder_that_cannot_be_read_hides_no_other(
    checkpoint: pathlib.Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is listed by its folder's name with the reason."""
    Store(listener=told).find("starter")
    [hidden] = [model.path for model in list_cached() if model.name != "starter"]
    glob = pathlib.Path.glob

    def refuse(path: pathlib.Path, pattern: str) -> Iterator[pathlib.Path]:
        if path == hidden:
            raise PermissionError(errno.EACCES, "Permission denied")
        return glob(path, pattern)

    monkeypatch.setattr(pathlib.Path, "glob", refuse)
    faults = {model.path: model.fault for model in list_cached()}
    assert faults.pop(hidden) == f"{hidden}: Permission denied"
    assert list(faults.values()) == [None]


def test_a_description_holds_config_parameters_and_the_graphs_table(
    checkpoint: pathlib.Path,
) -> None:
    """Parameters counted by hand: 257·32 + 16·32 + one block of width 32 + the last norm."""
    block = 4 * 32 + 32 * 96 + 96 + 32 * 32 + 32 + 32 * 128 + 128 + 128 * 32 + 32
    described = describe_model(find_cached(str(checkpoint))[0])
    assert described["parameters"] == 257 * 32 + 16 * 32 + block + 2 * 32
    assert described["config"]["n_embd"] == 32
    assert ["input_ids", "int64", ["B", "S"]] in described["inputs"]
    assert ["logits", "float32", ["B", "K", 257]] in described["outputs"]
    assert ["present.0.key", "float32", ["B", 2, "M", 16]] in described["outputs"]


def test_models_are_found_by_alias_and_commit(
    model_folders: ModelFolders, home: pathlib.Path, told: Told
) -> None:
    """Two commits of one model lie side by side and can be told apart."""
    with serve_hub({_REPO: model_folders.checkpoint(_SHAPE)}) as server:
        hub = Hub(server.address, home / "hub")
        Store(listener=told, hub=hub).find("gpt2")
        server.commit = OTHER_COMMIT
        Store(listener=told, hub=hub).pull("124M")
    assert {model.revision for model in find_cached("gpt2")} == {COMMIT, OTHER_COMMIT}
    assert [m.revision for m in find_cached(_REPO, revision=COMMIT[:7])] == [COMMIT]


def test_what_is_not_in_the_cache_is_an_error_that_says_where_to_look(
    checkpoint: pathlib.Path,
) -> None:
    with pytest.raises(ModelError, match="gpt2 models list"):
        find_cached("gpt2")
    with pytest.raises(ModelError, match=r"of that revision, step or precision.*gpt2 models list"):
        find_cached(str(checkpoint), precision="int8")
