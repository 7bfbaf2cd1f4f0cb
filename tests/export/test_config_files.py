"""config.json and generation_config.json as files: which names the token ids, and damage."""

import json
import pathlib

import pytest

from export.config import read_config
from export.errors import CheckpointError
from tests.export.config_folders import FIELDS, faults_of, read_fields, write_json

# Token ids.


def test_several_eos_ids_are_all_kept(tmp_path: pathlib.Path) -> None:
    """EOS may be a list."""
    assert read_fields(tmp_path, eos_token_id=[3, 49]).eos_token_ids == (3, 49)


def test_generation_config_comes_before_config(tmp_path: pathlib.Path) -> None:
    """Where both name an id, that of generation_config.json counts."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 1, "bos_token_id": 2})
    config = read_fields(tmp_path, eos_token_id=9, bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((1,), 2)


def test_what_generation_config_leaves_out_is_read_from_config(tmp_path: pathlib.Path) -> None:
    """One id may come from the one file and one from the other."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": [1, 2]})
    config = read_fields(tmp_path, bos_token_id=8)
    assert (config.eos_token_ids, config.bos_token_id) == ((1, 2), 8)


def test_a_null_in_generation_config_says_nothing(tmp_path: pathlib.Path) -> None:
    """`"eos_token_id": null` leaves config.json's."""
    write_json(tmp_path / "generation_config.json", {"eos_token_id": None})
    assert read_fields(tmp_path, eos_token_id=9).eos_token_ids == (9,)


@pytest.mark.parametrize("value", [50, 50256, -1, [], [50, -1]])
def test_ids_outside_the_vocabulary_count_as_none(tmp_path: pathlib.Path, value: object) -> None:
    """The largest of 50 ids is 49; configs of small vocabularies carry GPT2Config's 50256."""
    config = read_fields(tmp_path, eos_token_id=value, bos_token_id=value)
    assert (config.eos_token_ids, config.bos_token_id) == ((), None)


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


@pytest.mark.parametrize("value", [True, 1.0, "9", [9, "9"], [None], [[9]], {}])
@pytest.mark.parametrize("name", ["eos_token_id", "bos_token_id"])
def test_an_id_that_is_no_integer_is_a_fault(
    tmp_path: pathlib.Path, name: str, value: object
) -> None:
    """Boolean, fraction, text, null or a list in a list, an object."""
    [fault] = faults_of(tmp_path, **{name: value})
    assert fault.startswith(f"config field {name}: expected token ids, found ")


# Files.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"n_layer": 1',
        b"nonsense",
        b"\xff\xfe\xfa",
        b'{"n_layer": "\xff"}',
        b"[" * 100_000,
        b'{"n_layer": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "open", "cut", "text", "binary", "not-utf8", "deep", "many-digits"],
)
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_what_is_not_json_is_one_fault(tmp_path: pathlib.Path, name: str, content: bytes) -> None:
    """Damage of any kind is told in one line that names the file."""
    write_json(tmp_path / "config.json", FIELDS)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    [fault] = caught.value.faults
    assert fault.startswith((f"{name} is ", f"{name} has a number of 5000 digits"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [[], 1, None, "config"])
def test_json_that_is_no_object_is_a_fault(tmp_path: pathlib.Path, value: object) -> None:
    """A list, a number, null and text hold no fields."""
    write_json(tmp_path / "config.json", value)
    with pytest.raises(CheckpointError, match=r"config\.json holds no JSON object"):
        read_config(tmp_path)


def test_a_file_of_another_size_is_not_read(tmp_path: pathlib.Path) -> None:
    """A hole of a gigabyte in place of config.json."""
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(
        CheckpointError, match=r"config\.json has 1073741824 bytes, expected at most 67108864"
    ):
        read_config(tmp_path)


def test_a_missing_file_is_a_fault(tmp_path: pathlib.Path) -> None:
    """The folder is named, and what it lacks."""
    with pytest.raises(CheckpointError, match=r"config\.json is missing") as caught:
        read_config(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_folder_in_place_of_the_file_is_a_fault(tmp_path: pathlib.Path, name: str) -> None:
    """A directory cannot be read as a file."""
    if name != "config.json":
        write_json(tmp_path / "config.json", FIELDS)
    (tmp_path / name).mkdir()
    with pytest.raises(CheckpointError, match=f"{name} is a directory"):
        read_config(tmp_path)


def test_faults_of_both_files_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Damage in one file does not hide damage in the other."""
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    assert len(caught.value.faults) == 2


def test_a_byte_order_mark_is_no_damage(tmp_path: pathlib.Path) -> None:
    """Editors on Windows put one before the text."""
    (tmp_path / "config.json").write_text(json.dumps(FIELDS), encoding="utf-8-sig")
    assert read_config(tmp_path).n_layer == 3
