"""The template of a conversation that a checkpoint has, and how it comes into the model folder."""

import json
import pathlib
from typing import Any, Final

import pytest

from export.chat_template import CHAT_TEMPLATE_FILE
from export.config import read_config
from export.convert import convert
from export.errors import CheckpointError
from export.tokenizer import TokenizerFacts, read_facts
from tests.checkpoints import write_checkpoint
from tests.export.conversions import MODEL_FILES, SMALLEST_SHAPE, list_tree, read_manifest
from tests.vectors.chat_cases import ChatCase, write_chat_case

_TEMPLATE: Final = "{{ messages }}\n"
_NAMED: Final = [{"name": "rag", "template": "no"}, {"name": "default", "template": _TEMPLATE}]


def read(folder: pathlib.Path, files: dict[str, Any], **config: Any) -> TokenizerFacts:
    """Read a tokenizer beside which these files are, texts as they stand, else JSON."""
    write_chat_case(folder, ChatCase("", config=config))
    for name, content in files.items():
        whole = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(whole)
    return read_facts(folder, read_config(folder))


@pytest.mark.parametrize(
    ("files", "config", "template"),
    [
        ({}, {}, None),
        ({CHAT_TEMPLATE_FILE: _TEMPLATE.encode()}, {}, _TEMPLATE),
        ({CHAT_TEMPLATE_FILE: _TEMPLATE.encode()}, {"chat_template": "no"}, _TEMPLATE),
        ({}, {"chat_template": _TEMPLATE}, _TEMPLATE),
        ({}, {"chat_template": _NAMED}, _TEMPLATE),
        ({}, {"chat_template": {"default": _TEMPLATE}}, _TEMPLATE),
        ({"chat_template.json": {"chat_template": _TEMPLATE}}, {}, _TEMPLATE),
        ({"chat_template.json": {"chat_template": "no"}}, {"chat_template": "yes"}, "yes"),
        ({"chat_template.json": {}}, {}, None),
    ],
)
def test_the_template_is_found_where_transformers_finds_it(
    tmp_path: pathlib.Path, files: dict[str, Any], config: dict[str, Any], template: str | None
) -> None:
    """A file of its own, then the tokenizer's configuration, then the processor's old file."""
    facts = read(tmp_path, files, **config)
    assert (facts.chat.template, facts.notes) == (template, [])


@pytest.mark.parametrize("value", [[], [_NAMED[0]], {"tool": "x"}, 7, {"default": 7}, ["default"]])
def test_a_template_that_cannot_be_told_from_others_is_left_out(
    tmp_path: pathlib.Path, value: object
) -> None:
    """With a line that says so."""
    facts = read(tmp_path, {}, chat_template=value)
    told = "tokenizer_config.json: chat_template is left out, expected a text or one named default"
    assert (facts.chat.template, facts.notes) == (None, [told])


def test_a_template_that_is_no_text_is_a_fault(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja is not valid UTF-8 \(byte 3"):
        read(tmp_path, {CHAT_TEMPLATE_FILE: b"caf\xe9"})


def test_special_tokens_go_by_the_names_that_the_files_have_for_them(
    tmp_path: pathlib.Path,
) -> None:
    """What begins and ends a text has one in any case; a list of tokens gives none."""
    names = {"pad_token": "[P]", "image_token": {"content": "[I]"}, "bos_token": None}
    facts = read(tmp_path, {}, additional_special_tokens=["[A]"], **names)
    end = "<|endoftext|>"
    assert facts.chat.names == {
        **{"pad_token": "[P]", "image_token": "[I]"},
        **{"bos_token": end, "eos_token": end},
    }


def test_the_model_folder_has_the_template_and_the_names(tmp_path: pathlib.Path) -> None:
    """The graph and the weights are those of a checkpoint without one."""
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE)
    convert(source, tmp_path / "plain")
    (source / CHAT_TEMPLATE_FILE).write_bytes(_TEMPLATE.encode())
    convert(source, tmp_path / "out")
    plain, found = list_tree(tmp_path / "plain"), list_tree(tmp_path / "out")
    assert found.pop(CHAT_TEMPLATE_FILE) == _TEMPLATE.encode()
    assert MODEL_FILES <= found.keys() == plain.keys()
    assert {n: c for n, c in found.items() if n != "export.json"} == {
        n: c for n, c in plain.items() if n != "export.json"
    }
    manifest = read_manifest(tmp_path / "out")
    assert CHAT_TEMPLATE_FILE in manifest["files"]
    assert manifest["tokenizer"]["names"]["eos_token"] == "<|endoftext|>"


def test_a_folder_with_a_template_is_replaced_as_any_other(tmp_path: pathlib.Path) -> None:
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE)
    (source / CHAT_TEMPLATE_FILE).write_bytes(_TEMPLATE.encode())
    convert(source, tmp_path / "out")
    (source / CHAT_TEMPLATE_FILE).unlink()
    convert(source, tmp_path / "out", force=True)
    assert not (tmp_path / "out" / CHAT_TEMPLATE_FILE).exists()
