"""What the tokenizer says of the model's ids: which it lacks, and which begin and end a text."""

import json
import pathlib
from dataclasses import replace

import pytest

from export.config import GPT2Config, read_config
from export.errors import CheckpointError
from export.token_files import END_OF_TEXT
from export.tokenizer import TokenizerFacts, read_facts
from tests.checkpoints import CheckpointShape, write_checkpoint, write_tokenizer


def make_config(folder: pathlib.Path, vocab_size: int, **fields: object) -> GPT2Config:
    """Return a config of `vocab_size` ids that names no BOS and no EOS unless `fields` do."""
    shape = CheckpointShape(1, 1, 1, 1, vocab_size)
    nothing = {"bos_token_id": None, "eos_token_id": None}
    write_checkpoint(folder, shape, tokenizer=None, config=nothing | fields)
    return read_config(folder)


def facts_of(folder: pathlib.Path, config: GPT2Config) -> TokenizerFacts:
    return read_facts(folder, config)


def ids_of(facts: TokenizerFacts) -> tuple[int, list[list[int]], int | None, tuple[int, ...]]:
    """Return the tokenizer's size, the ids that it lacks, BOS and EOS."""
    special = facts.special
    return facts.vocab_size, facts.missing_ids, special.bos_token_id, special.eos_token_ids


def test_a_tokenizer_of_the_models_size_lacks_nothing(tmp_path: pathlib.Path) -> None:
    """Every id decodes; the end of text is BOS and EOS where the config names none."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    facts = facts_of(tmp_path, make_config(tmp_path, 257))
    assert ids_of(facts) == (257, [], 256, (256,))


def test_ids_that_are_missing_between_others_are_runs_of_their_own(tmp_path: pathlib.Path) -> None:
    """Here the end of text was moved past the end of a padded vocabulary's middle."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["added_tokens"][0]["id"] = raw["model"]["vocab"][END_OF_TEXT] = 260
    path.write_text(json.dumps(raw), "utf-8")
    facts = facts_of(tmp_path, make_config(tmp_path, 263))
    assert facts.missing_ids == [[256, 259], [261, 262]]


def test_a_vocabulary_that_a_config_makes_huge_costs_nothing(tmp_path: pathlib.Path) -> None:
    """Two thousand million ids are one run; that no weights have them is found elsewhere."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    config = replace(make_config(tmp_path, 257), vocab_size=2**31 - 1)
    facts = facts_of(tmp_path, config)
    assert facts.missing_ids == [[257, 2**31 - 2]]


@pytest.mark.parametrize("token_id", [2**31 - 1, 2**24, 100_000])
@pytest.mark.parametrize("name", ["tokenizer.json", "added_tokens.json", "vocab.json"])
def test_an_id_far_beyond_the_vocabulary_is_refused(
    tmp_path: pathlib.Path, name: str, token_id: int
) -> None:
    """The library would write down every id before it, in all the memory that there is."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    vocabulary = raw["model"]["vocab"]
    if name != "added_tokens.json":
        vocabulary["far"] = token_id
    path.write_text(json.dumps(raw), "utf-8")
    if name != "tokenizer.json":
        path.unlink()
        (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
        (tmp_path / "merges.txt").write_text("#version: 0.2\n")
        (tmp_path / "added_tokens.json").write_text(json.dumps({"far": token_id}))
    with pytest.raises(CheckpointError, match=f"'far' has the id {token_id}, .* end at 256"):
        facts_of(tmp_path, make_config(tmp_path, 257))


def test_a_tokenizer_larger_than_the_model_has_an_end_of_text_that_is_none(
    tmp_path: pathlib.Path,
) -> None:
    """An id that the model cannot give ends nothing."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    facts = facts_of(tmp_path, make_config(tmp_path, 200))
    assert ids_of(facts) == (257, [], None, ())


# BOS and EOS where config.json and generation_config.json name none.


def write_without_end_of_text(folder: pathlib.Path) -> GPT2Config:
    """Write a tokenizer of printable ASCII with `</s>` as id 96, and a config of its size."""
    write_tokenizer(folder, 97, kind="ascii")
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(END_OF_TEXT, "</s>"), encoding="utf-8")
    return make_config(folder, 97)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("token", ["</s>", {"content": "</s>", "lstrip": False}])
def test_eos_and_bos_are_named_by_the_tokenizers_files(
    tmp_path: pathlib.Path, name: str, token: object
) -> None:
    """As text, or as an object around it."""
    config = write_without_end_of_text(tmp_path)
    (tmp_path / name).write_text(json.dumps({"eos_token": token, "bos_token": "a"}))
    facts = facts_of(tmp_path, config)
    assert (facts.special.eos_token_ids, facts.special.bos_token_id) == ((96,), ord("a") - ord(" "))


def test_without_any_file_that_names_them_there_are_none(tmp_path: pathlib.Path) -> None:
    """Nothing is guessed from a token's looks."""
    facts = facts_of(tmp_path, write_without_end_of_text(tmp_path))
    assert (facts.special.eos_token_ids, facts.special.bos_token_id) == ((), None)


@pytest.mark.parametrize(
    ("settings", "eos"), [({}, ord("b") - 32), ({"added_tokens_decoder": {}}, ord("a") - 32)]
)
def test_special_tokens_map_comes_before_an_older_tokenizer_config(
    tmp_path: pathlib.Path, settings: dict[str, object], eos: int
) -> None:
    """As in transformers 5.24; and after one that lists the added tokens."""
    config = write_without_end_of_text(tmp_path)
    first, second = tmp_path / "tokenizer_config.json", tmp_path / "special_tokens_map.json"
    first.write_text(json.dumps({"eos_token": "a", "bos_token": "c", **settings}))
    second.write_text('{"eos_token": "b", "bos_token": "[BOS]"}')
    facts = facts_of(tmp_path, config)
    assert (facts.special.eos_token_ids, facts.special.bos_token_id) == ((eos,), ord("c") - 32)


@pytest.mark.parametrize("token", [None, 3, ["</s>"], {"content": 3}, {}])
def test_a_token_that_is_no_text_names_nothing(tmp_path: pathlib.Path, token: object) -> None:
    """Null, a number, a list, an object without text."""
    config = write_without_end_of_text(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": token}))
    assert facts_of(tmp_path, config).special.eos_token_ids == ()
