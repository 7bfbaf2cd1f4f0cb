"""Which TensorFlow checkpoint is meant, of several in a folder."""

import pathlib

import pytest

from export.errors import CheckpointError
from export.tensorflow_steps import choose_name, find_steps


def place(folder: pathlib.Path, *names: str, state: str | None = None) -> None:
    for name in names:
        (folder / f"{name}.index").touch()
    if state is not None:
        (folder / "checkpoint").write_text(state, encoding="utf-8")


def name_newest(path: str) -> str:
    return f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "model-9"\n'


def choose(folder: pathlib.Path, step: int | None = None) -> tuple[str, list[str]]:
    chosen = choose_name(folder, step)
    assert chosen is not None
    return chosen.name, [*chosen.notes]


def refuse(folder: pathlib.Path, step: int | None = None) -> str:
    with pytest.raises(CheckpointError) as caught:
        choose_name(folder, step)
    [fault] = caught.value.faults
    return fault


def test_a_single_checkpoint_needs_no_file_that_names_it(tmp_path: pathlib.Path) -> None:
    """As OpenAI's release has it, and nothing is to be said."""
    place(tmp_path, "model.ckpt")
    assert choose(tmp_path) == ("model.ckpt", [])
    assert find_steps(tmp_path) == []


def test_a_folder_without_one_has_none(tmp_path: pathlib.Path) -> None:
    """Files of other programs, and hidden ones, are none."""
    place(tmp_path, ".model-5", state=name_newest("model-5"))
    (tmp_path / "model.safetensors.index.json").touch()
    assert choose_name(tmp_path, None) is None


@pytest.mark.parametrize(
    "path",
    [
        "model-9",
        "/content/checkpoint/run1/model-9",
        "../other/model-9",
        r"C:\\train\\run1\\model-9",
    ],
)
def test_the_one_that_is_named_is_read_from_this_folder(tmp_path: pathlib.Path, path: str) -> None:
    """Wherever it once was: no path leads out of the folder."""
    folder, other = tmp_path / "run1", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
    place(other, "model-9")
    place(folder, "model-9", "model-10", state=name_newest(path))
    assert choose(folder) == ("model-9", ["model-9 was read, not model-10"])


def test_without_a_name_it_is_the_last_as_numbers_count(tmp_path: pathlib.Path) -> None:
    """Ten comes after nine, and one without a number before all."""
    place(tmp_path, "model-9", "model-10", "model")
    assert choose(tmp_path) == ("model-10", ["model-10 was read, not model, model-9"])
    assert find_steps(tmp_path) == [9, 10]


@pytest.mark.parametrize("name", ["model-7", "..", ""])
def test_a_name_that_is_not_here_is_told(tmp_path: pathlib.Path, name: str) -> None:
    """As in a folder of which only a part was downloaded."""
    place(tmp_path, "model-5", state=name_newest(name))
    told = [f"model-5 was read; checkpoint names {name}, which is not here"] if name else []
    assert choose(tmp_path) == ("model-5", told)


def test_a_step_is_found_whatever_is_named(tmp_path: pathlib.Path) -> None:
    """Also where `checkpoint` is damaged."""
    place(tmp_path, "model-9", "model-10")
    (tmp_path / "checkpoint").write_bytes(b"\xff")
    assert choose(tmp_path, 9) == ("model-9", [])
    assert refuse(tmp_path, 8) == "there is no TensorFlow checkpoint of step 8"
    assert refuse(tmp_path).startswith("checkpoint is not valid UTF-8")


def test_what_cannot_be_told_is_refused(tmp_path: pathlib.Path) -> None:
    """Two names without a step, or with the same."""
    place(tmp_path, "a", "b")
    assert refuse(tmp_path).startswith("there are several TensorFlow checkpoints: a, b; keep one")
    place(tmp_path, "a-3", "b-3", "c-2")
    assert refuse(tmp_path).startswith("there are several TensorFlow checkpoints: a-3, b-3; keep")
    assert refuse(tmp_path, 3) == "step 3 is there twice, as a-3, b-3"
