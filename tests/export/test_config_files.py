"""config.json and generation_config.json as files: which names the token ids, and damage."""

import pathlib

import pytest

from export.config import read_config
from export.errors import CheckpointError
from tests.export.config_folders import faults_of, read_fields, write_json

# Token ids.


def test_generation_config_comes_before_config(tmp_path: pathlib.Path) -> None:
    """Field by field; null says nothing."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": [1, 2], "bos_token_id": None})
    config = read_fields(tmp_path, eos_token_id=9, bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((1, 2), 8)
    assert config.eos_origin == "generation_config.json"


def test_of_several_ids_those_of_the_vocabulary_are_kept(tmp_path: pathlib.Path) -> None:
    """One that the model cannot draw does not take the others with it."""
    config = read_fields(tmp_path, eos_token_id=[50256, 3, -1, 49], bos_token_id=[50, 0, 1])
    assert (config.eos_token_ids, config.bos_token_id) == ((3, 49), 0)


def test_a_file_that_names_no_id_of_the_vocabulary_leaves_it_to_the_next(
    tmp_path: pathlib.Path,
) -> None:
    """generation_config.json's 50256 does not hide the id in config.json."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 50256, "bos_token_id": -1})
    config = read_fields(tmp_path, eos_token_id=9, bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((9,), 8)


@pytest.mark.parametrize("value", [True, 1.0, "9", [9, None], [[9]], {}])
@pytest.mark.parametrize("name", ["eos_token_id", "bos_token_id"])
def test_an_id_that_is_no_integer_is_a_fault(
    tmp_path: pathlib.Path, name: str, value: object
) -> None:
    """Boolean, fraction, text, null or a list in a list, an object."""
    [fault] = faults_of(tmp_path, **{name: value})
    assert fault.startswith(f"config field {name}: expected token ids, found ")


# Files.


def test_a_missing_file_is_a_fault(tmp_path: pathlib.Path) -> None:
    """The folder is named, and what it lacks."""
    with pytest.raises(CheckpointError, match=r"config\.json is missing") as caught:
        read_config(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_faults_of_both_files_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Damage in one file does not hide damage in the other."""
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    assert len(caught.value.faults) == 2
