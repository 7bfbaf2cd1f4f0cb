"""Claims about the steps of a folder with several TensorFlow checkpoints."""

import pathlib
import shutil

import pytest

from export.convert import convert
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.store.catalogue import find_cached, list_cached
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import Store
from tests.gpt2cli.store.conftest import Told
from tests.vectors.tensorflow_cases import copy_checkpoint


@pytest.fixture
def trained(home: pathlib.Path) -> pathlib.Path:
    """Return a folder of the steps 9 and 10."""
    return copy_checkpoint("trained", home / "trained")


def test_each_step_is_an_export_of_its_own(trained: pathlib.Path, told: Told) -> None:
    """Kept side by side, known by the step; the newest has none, since it may become another."""
    found = {
        step: Store(listener=told, step=step).find(str(trained)) for step in (None, 9, 10, None)
    }
    assert {step: model.revision for step, model in found.items()} == {
        None: None,
        9: "step-9",
        10: "step-10",
    }
    weights = {
        step: (model.folder.path / "model.onnx.data").read_bytes() for step, model in found.items()
    }
    assert weights[None] == weights[10] != weights[9]
    assert len(list_cached()) == 3
    [of_step] = find_cached(str(trained), step=9)
    assert of_step.path == found[9].folder.path
    with pytest.raises(ModelError, match="step or precision"):
        find_cached(str(trained), step=8)


def test_the_step_that_is_named_is_exported_again_when_another_is_newest(
    trained: pathlib.Path, told: Told
) -> None:
    """Training went on, or somebody turned it back."""
    newest = Store(listener=told).find(str(trained)).folder
    before = (newest.path / "model.onnx.data").read_bytes()
    (trained / "checkpoint").write_text('model_checkpoint_path: "model-9"\n', encoding="utf-8")
    again = Store(listener=told).find(str(trained)).folder
    assert (again.path / "model.onnx.data").read_bytes() != before
    assert "model-9 was read, not model-10" in told.notes


def test_a_step_that_is_not_there_is_refused_with_those_that_are(
    trained: pathlib.Path, told: Told
) -> None:
    """A wrong use of the option, before anything is converted."""
    with pytest.raises(UsageError) as caught:
        Store(listener=told, step=8).find(str(trained))
    assert str(caught.value) == "step: expected one of the steps 9, 10, found 8"
    assert told.notes == []


@pytest.mark.parametrize("name", ["starter", "gpt2", "owner/name", None])
def test_a_step_of_what_has_none_is_refused(told: Told, name: str | None) -> None:
    """Models of the hub and the starter, without asking the network."""
    store = Store(listener=told, step=1, hub=Hub("http://127.0.0.1:9"))
    with pytest.raises(UsageError, match=r"^step: .* is not a folder with steps of TensorFlow"):
        store.find(name)
    if name != "starter" and name is not None:
        for look in (store.pull, store.find_checkpoint):
            with pytest.raises(UsageError, match=r"^step: "):
                look(name)


def test_a_folder_without_steps_has_none(
    trained: pathlib.Path, told: Told, tmp_path: pathlib.Path
) -> None:
    """A checkpoint without a number, and a model folder."""
    convert(trained, tmp_path / "model")
    for name in list(trained.glob("model-*")):
        if name.name.startswith("model-9."):
            name.unlink()
        else:
            shutil.move(name, trained / name.name.replace("model-10.", "model.ckpt."))
    for folder in (trained, tmp_path / "model"):
        with pytest.raises(UsageError, match=r"^step: .*steps of TensorFlow checkpoints"):
            Store(listener=told, step=10).find(str(folder))
