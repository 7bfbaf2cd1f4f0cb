"""What the files of a checkpoint say of encoding, against transformers, and what is refused."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from export.config import read_config
from export.errors import CheckpointError
from export.tokenizer import TokenizerFacts, read_facts
from tests.vectors.token_cases import CASES, STORED_FILE, TokenCase, write_case

STORED = json.loads(STORED_FILE.read_text("utf-8"))


def read(folder: pathlib.Path, case: TokenCase) -> TokenizerFacts:
    write_case(folder, case)
    return read_facts(folder, read_config(folder))


@pytest.mark.parametrize("name", CASES)
def test_a_text_has_the_ids_of_transformers(tmp_path: pathlib.Path, name: str) -> None:
    """Special tokens read as such, as they do there; what stands before a prompt is among them."""
    facts = read(tmp_path, CASES[name])
    ids = facts.tokenizer.encode(CASES[name].text, add_special_tokens=False).ids
    assert [*facts.start_ids, *ids] == STORED[name]["ids"]


@pytest.mark.parametrize("name", [name for name in CASES if STORED[name]["bos"] is not None])
def test_the_special_tokens_are_those_of_transformers(tmp_path: pathlib.Path, name: str) -> None:
    """What skip_special_tokens leaves out there never prints here; BOS and EOS are the same."""
    special, stored = read(tmp_path, CASES[name]).special, STORED[name]
    silent = {token_id for token_id, token in special.tokens.items() if token.silent}
    assert silent >= {*stored["special"]}
    assert special.bos_token_id == stored["bos"]
    assert special.eos_token_ids == (stored["eos"],)


def read_changed(
    folder: pathlib.Path, change: Callable[[dict[str, Any]], object], **files: Any
) -> TokenizerFacts:
    """Read a tokenizer.json in which something was changed."""
    write_case(folder, TokenCase(whole=True, **files))
    raw = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    change(raw)
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    return read_facts(folder, read_config(folder))


@pytest.mark.parametrize("setting", ["continuing_subword_prefix", "end_of_word_suffix"])
def test_tokens_with_an_affix_are_refused(tmp_path: pathlib.Path, setting: str) -> None:
    """It would be printed within the text."""
    with pytest.raises(CheckpointError, match=f"{setting} is '##': not implemented"):
        read_changed(tmp_path, lambda raw: raw["model"].update({setting: "##"}))


def test_byte_fallback_is_refused_where_it_would_be_used(tmp_path: pathlib.Path) -> None:
    """Its tokens are written <0x0A>; with a token for each byte none is ever drawn for a text."""
    read_changed(tmp_path, lambda raw: raw["model"].update(byte_fallback=True))

    def take_one(raw: dict[str, Any]) -> None:
        raw["model"]["byte_fallback"] = True
        del raw["model"]["vocab"]["a"]

    with pytest.raises(CheckpointError, match="byte_fallback is true and bytes are missing"):
        read_changed(tmp_path, take_one)


def test_the_dropout_of_a_training_is_left_out(tmp_path: pathlib.Path) -> None:
    """It would cut the same text into other tokens each time."""

    def add(raw: dict[str, Any]) -> None:
        raw["model"]["vocab"]["!!"] = 257
        raw["model"].update(merges=[["!", "!"]], dropout=0.5)

    tokenizer = read_changed(tmp_path, add).tokenizer
    assert [tokenizer.encode("!!").ids for _ in range(64)] == [[257]] * 64


def test_what_is_put_after_a_text_is_left_out_with_a_note(tmp_path: pathlib.Path) -> None:
    """The completion goes on from there; what is put before it stays."""
    ends = {"type": "BertProcessing", "sep": ["<|endoftext|>", 256], "cls": ["!", 0]}
    facts = read_changed(tmp_path, lambda raw: raw.update(post_processor=ends))
    assert facts.start_ids == (0,)
    [note] = facts.notes
    assert (
        note == "the tokenizer puts '<|endoftext|>' after a text: left out, since the text goes on"
    )


def test_lower_case_that_transformers_passes_over_is_told(tmp_path: pathlib.Path) -> None:
    """Early versions wrote it, and heeded it."""
    [note] = read(tmp_path, TokenCase(config={"do_lower_case": True})).notes
    assert note.startswith("tokenizer_config.json: do_lower_case is left out")
