"""Adapters that peft made, merged by a conversion: the logits are peft's own."""

import pathlib
import shutil
from typing import Final

import numpy as np
import pytest

from export.config import read_config
from export.convert import convert
from tests.checkpoints import draw_normal, write_safetensors, write_tokenizer
from tests.export.conversions import read_manifest
from tests.export.graph_session import FloatArray, GraphSession, difference
from tests.vectors.adapter_cases import (
    ADAPTERS,
    BASE_NAME,
    IDS,
    LARGER_VOCABULARY,
    MERGED,
    POSITIONS,
    copy_adapter,
    load_logits,
    write_base,
)

_TOLERANCE: Final = 1e-4


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, pathlib.Path]:
    """Return the checkpoints that the adapters were made for: by whether wte is lm_head too."""
    root = tmp_path_factory.mktemp("bases")
    return {tied: write_base(root / str(tied), tied=tied) for tied in (True, False)}


@pytest.fixture
def base(bases: dict[bool, pathlib.Path]) -> pathlib.Path:
    """Return the checkpoint that most adapters were made for; read it, do not change it."""
    return bases[True]


def find_logits(folder: pathlib.Path) -> FloatArray:
    """Return what a model folder answers to the stored ids, [K, V]."""
    config = read_config(folder)
    session = GraphSession(folder, config)
    cache = session.make_cache(rows=1, capacity=len(IDS))
    return session.run([IDS], [0], cache, asked=[POSITIONS])[0]


@pytest.mark.parametrize("name", MERGED)
def test_the_logits_are_those_of_peft(
    bases: dict[bool, pathlib.Path], tmp_path: pathlib.Path, name: str
) -> None:
    """Each kind of adapter, and two one after the other."""
    cases = MERGED[name]
    adapters = [ADAPTERS / case.name for case in cases]
    convert(bases[cases[0].tied], tmp_path / "model", adapters=adapters)
    found = find_logits(tmp_path / "model")
    assert difference(found, load_logits(name)) <= _TOLERANCE


def test_a_torch_file_is_the_same(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """adapter_model.bin, of peft before 0.8."""
    convert(base, tmp_path / "model", adapters=[ADAPTERS / "rslora-bin"])
    assert difference(find_logits(tmp_path / "model"), load_logits("rslora")) <= _TOLERANCE


def test_names_of_older_files_are_the_same(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With the name that an adapter has in memory, or without what stands around the model."""
    a = draw_normal(1, 1, shape=(2, 16), mean=0, spread=0.2)
    b = draw_normal(1, 2, shape=(48, 2), mean=0, spread=0.2)
    found = []
    for number, (outer, inner) in enumerate([("base_model.model.", ""), ("", ".default")]):
        adapter = copy_adapter("bias-lora-only", tmp_path / str(number))
        module = f"{outer}transformer.h.1.attn.c_attn"
        tensors = {f"{module}.lora_A{inner}.weight": a, f"{module}.lora_B{inner}.weight": b}
        write_safetensors(adapter / "adapter_model.safetensors", tensors)
        convert(base, tmp_path / f"model-{number}", adapters=[adapter])
        found.append(find_logits(tmp_path / f"model-{number}"))
    assert np.array_equal(found[0], found[1])


def test_the_model_folder_says_what_was_merged(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The source in export.json, and a configuration of what the graph computes."""
    adapter = ADAPTERS / "saved-resized"
    convert(base, tmp_path / "model", adapters=[adapter])
    source = read_manifest(tmp_path / "model")["source"]
    assert source == {"path": str(base.resolve()), "adapters": [{"path": str(adapter.resolve())}]}
    config = read_config(tmp_path / "model")
    assert (config.vocab_size, config.tie_word_embeddings) == (LARGER_VOCABULARY, False)


def test_equal_matrices_stay_one(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Peft stores a resized vocabulary twice where one matrix is wte and lm_head."""
    convert(base, tmp_path / "model", adapters=[ADAPTERS / "resized"])
    assert read_config(tmp_path / "model").tie_word_embeddings


def test_the_tokenizer_beside_an_adapter_is_taken(
    base: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """That of the last adapter that has one."""
    adapter = copy_adapter("saved-resized", tmp_path / "adapter")
    write_tokenizer(adapter, LARGER_VOCABULARY, kind="ascii")
    convert(base, tmp_path / "model", adapters=[adapter, ADAPTERS / "plain"])
    assert read_manifest(tmp_path / "model")["tokenizer"]["missing_ids"] == [[97, 100]]


def test_a_base_of_another_name_is_told(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """It may be a copy, so it is a note."""
    other = shutil.copytree(base, tmp_path / "other")
    notes: list[str] = []
    convert(other, tmp_path / "model", adapters=[ADAPTERS / "plain"], note=notes.append)
    told = f"adapter {ADAPTERS / 'plain'} was made for {BASE_NAME}, not for {other}"
    assert notes == [told]


@pytest.mark.parametrize(
    ("stored", "given"), [("openai-community/gpt2", "gpt2"), (f"/x/{BASE_NAME}/", "hub/Tiny-GPT2")]
)
def test_the_same_name_is_not_told(
    base: pathlib.Path, tmp_path: pathlib.Path, stored: str, given: str
) -> None:
    """Whose it is, and where it lies, does not matter."""
    adapter = copy_adapter("plain", tmp_path / "adapter", base_model_name_or_path=stored)
    notes: list[str] = []
    origin = {"repo": given, "commit": "0"}
    convert(base, tmp_path / "model", adapters=[adapter], origin=origin, note=notes.append)
    assert notes == []


def test_a_head_of_another_task_is_left_out_with_a_note(
    base: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Peft keeps that of a classifier beside the LoRA of the model below it."""
    adapter = copy_adapter("rslora", tmp_path / "adapter")
    tensors = {
        "base_model.model.score.weight": np.ones((2, 16), np.float32),
        "base_model.model.transformer.ln_f.bias": np.ones(16, np.float32),
    }
    write_safetensors(adapter / "adapter_model.safetensors", tensors)
    notes: list[str] = []
    convert(base, tmp_path / "model", adapters=[adapter], note=notes.append)
    assert notes == [f"score.* of {adapter} was left out; the language model does not use it"]
