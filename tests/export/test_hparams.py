"""hparams.json of OpenAI's GPT-2: what it means, and what it must not have."""

import pathlib
from typing import Final

import pytest

from export.config import read_config
from export.errors import CheckpointError
from tests.export.test_config import write_json

_HPARAMS: Final = {"n_vocab": 50, "n_ctx": 16, "n_embd": 8, "n_head": 2, "n_layer": 3}


def refuse(folder: pathlib.Path, hparams: dict[str, object]) -> list[str]:
    write_json(folder / "hparams.json", hparams)
    with pytest.raises(CheckpointError) as caught:
        read_config(folder)
    return [*caught.value.faults]


def test_its_fields_are_the_sizes_of_a_config(tmp_path: pathlib.Path) -> None:
    """And what `src/model.py` fixes is GPT-2's usual; a dropout of training changes nothing."""
    write_json(tmp_path / "hparams.json", {**_HPARAMS, "attn_dropout": 0.1})
    config = read_config(tmp_path)
    assert (config.vocab_size, config.n_positions, config.n_embd) == (50, 16, 8)
    assert (config.n_head, config.n_layer, config.n_inner) == (2, 3, 32)
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_tanh", 1e-5)
    assert config.tie_word_embeddings


def test_a_config_json_comes_before_it(tmp_path: pathlib.Path) -> None:
    """It says more; both are there after somebody converted the folder."""
    write_json(tmp_path / "hparams.json", _HPARAMS)
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 4, "n_positions": 3, "vocab_size": 5}
    write_json(tmp_path / "config.json", sizes)
    assert read_config(tmp_path).n_layer == 1


def test_what_openais_gpt2_does_not_have_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    """Other models, such as GPT-Neo, keep their settings in files like this one."""
    [fault] = refuse(tmp_path, {**_HPARAMS, "attention_types": [["global", 24]]})
    assert fault.startswith('hparams.json has attention_types = [["global", 24]], which OpenAI')


def test_missing_and_wrong_fields_are_named(tmp_path: pathlib.Path) -> None:
    """All that are missing at once; a value is checked as in a config.json."""
    assert refuse(tmp_path, {"n_embd": 8, "n_head": 2, "n_layer": 3}) == [
        "hparams.json has no n_vocab",
        "hparams.json has no n_ctx",
    ]
    [fault] = refuse(tmp_path, {**_HPARAMS, "n_layer": 0})
    assert fault.startswith("config field n_layer: expected an integer from 1 to 1000, found 0")
