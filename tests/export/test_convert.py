"""What a conversion writes, and what it tells while it does."""

import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.convert import convert
from export.graph import GRAPH_VERSION
from export.manifest import find_graphs
from export.reference import Reference
from export.storage import Precision
from tests.checkpoints import CheckpointShape, make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import MODEL_FILES, SMALLEST_SHAPE, STAGES, list_tree, read_manifest
from tests.export.graph_session import TOLERANCE, GraphSession, difference
from tests.model_folders import SMALL_SHAPE, ModelFolders


def test_the_folder_holds_the_files_of_the_contract(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Five files, and nothing beside the folder."""
    convert(checkpoint, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == MODEL_FILES
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("head_dim", "precision", "names"),
    [
        (8, Precision.FP32, ["model.onnx", "model_cpu.onnx"]),
        (24, Precision.INT8, ["model.onnx", "model_cpu.onnx"]),
        (12, Precision.FP32, ["model.onnx"]),
        (8, Precision.FP16, ["model.onnx"]),
    ],
)
def test_there_is_a_graph_for_the_cpu_where_it_has_the_operator(
    model_folders: ModelFolders, head_dim: int, precision: Precision, names: list[str]
) -> None:
    """Heads of a multiple of 8, in float32; both graphs take their weights from the same bytes."""
    shape = CheckpointShape(n_layer=1, n_head=2, n_embd=2 * head_dim, n_positions=8, vocab_size=289)
    folder = model_folders(shape, precision=precision)
    graphs = find_graphs(folder)
    assert [graph.name for graph in graphs] == names
    first, *others = (list_external(graph) for graph in graphs)
    assert all(other == first for other in others)


def list_external(graph: pathlib.Path) -> dict[str, list[tuple[str, str]]]:
    """Return where each weight of a graph lies."""
    model = onnx.load(graph, load_external_data=False)
    return {
        tensor.name: [(entry.key, entry.value) for entry in tensor.external_data]
        for tensor in model.graph.initializer
        if tensor.external_data
    }


def test_missing_parents_of_the_folder_are_made(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """OUT may lie in folders that do not exist yet."""
    convert(checkpoint, tmp_path / "a" / "b" / "out")
    assert (tmp_path / "a" / "b" / "out" / "export.json").is_file()


def test_the_description_is_true(model_folders: ModelFolders) -> None:
    """export.json says what the files and the libraries say of themselves."""
    source, folder = model_folders.checkpoint(), model_folders()
    manifest = read_manifest(folder)
    assert manifest["files"] == {
        path.name: {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.iterdir()
        if path.name != "export.json"
    }
    assert manifest["format"] == "gpt2 model folder"
    assert manifest["graph_version"] == GRAPH_VERSION
    assert manifest["precision"] == "fp32"
    assert manifest["model"] == {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 32,
        "head_dim": 16,
        "n_positions": 33,
        "vocab_size": 289,
    }
    assert manifest["tokenizer"] == {
        "vocab_size": 289,
        "missing_ids": [],
        "start_ids": [],
        "bos_token_id": 288,
        "eos_token_ids": [288],
        "special_tokens": [
            {
                "id": 288,
                "text": "<|endoftext|>",
                "begins": "config.json",
                "ends": "config.json",
                "silent": "tokenizer.json",
            }
        ],
    }
    assert manifest["onnx"] == onnx.__version__
    assert manifest["checked"] == [
        {"onnxruntime": onnxruntime.__version__, "provider": "CPUExecutionProvider"}
    ]
    assert manifest["source"] == {"path": str(source.resolve())}


def test_another_origin_is_stored_as_it_is_given(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A hub download says where it came from."""
    origin = {"repository": "openai-community/gpt2", "revision": "607a30d"}
    convert(checkpoint, tmp_path / "out", origin=origin)
    assert read_manifest(tmp_path / "out")["source"] == origin


def test_missing_ids_are_written_as_ranges(tmp_path: pathlib.Path) -> None:
    """A vocabulary of 260 ids over a tokenizer of 257 lacks one range, first and last id."""
    source = write_checkpoint(tmp_path / "source", CheckpointShape(1, 1, 4, 3, 260))
    convert(source, tmp_path / "out")
    assert read_manifest(tmp_path / "out")["tokenizer"]["missing_ids"] == [[257, 259]]


def test_the_configurations_are_copied_byte_for_byte(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """What the checkpoint says of itself is kept as it was written, spaces and all."""
    source = shutil.copytree(model_folders.checkpoint(), tmp_path / "source")
    text = (source / "config.json").read_text(encoding="utf-8")
    (source / "config.json").write_text(f" {text}\n\n", encoding="utf-8")
    (source / "generation_config.json").write_text('{ "eos_token_id" : [1,2] }')
    convert(source, tmp_path / "out")
    for name in ("config.json", "generation_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()
    assert read_manifest(tmp_path / "out")["tokenizer"]["eos_token_ids"] == [1, 2]


def test_the_tokenizer_has_in_it_what_other_files_say(tmp_path: pathlib.Path) -> None:
    """What reads the model folder needs no file but tokenizer.json."""
    from tokenizers import Tokenizer

    source = write_checkpoint(tmp_path / "source", CheckpointShape(1, 1, 2, 2, 257))
    settings = {"add_prefix_space": True, "mask_token": "<|endoftext|>"}
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    convert(source, tmp_path / "out")
    whole, own = (
        Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (tmp_path / "out", source)
    )
    assert whole.encode("a").ids == own.encode(" a").ids == [220, 64]
    assert whole.get_vocab() == own.get_vocab()


def test_vocabulary_files_become_a_tokenizer_json(tmp_path: pathlib.Path) -> None:
    """vocab.json and merges.txt of GPT-2 give a tokenizer.json with the same ids."""
    from tokenizers import Tokenizer

    shape = CheckpointShape(1, 1, 2, 2, 50257)
    source = write_checkpoint(tmp_path / "source", shape, tokenizer="gpt2")
    convert(source, tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert tokenizer.encode("Hello world<|endoftext|>").ids == [15496, 995, 50256]


def test_the_precision_is_float32_to_the_last_bit(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """fp32 weights are those of the checkpoint; the precision can be named."""
    convert(model_folders.checkpoint(), tmp_path / "out", precision=Precision("fp32"))
    graph = onnx.load(tmp_path / "out" / "model.onnx").graph  # with the external data
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for name, tensor in make_tensors(SMALL_SHAPE).items():
        assert found[name.removeprefix("transformer.")].tobytes() == tensor.tobytes()


def test_the_end_of_text_may_be_named_by_the_tokenizers_files(tmp_path: pathlib.Path) -> None:
    """What no id tells is written out as one."""
    silent = {"eos_token_id": 50256, "bos_token_id": None}
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE, config=silent)
    tokenizer = (source / "tokenizer.json").read_text(encoding="utf-8")
    (source / "tokenizer.json").write_text(tokenizer.replace("<|endoftext|>", "</s>"))
    (source / "tokenizer_config.json").write_text('{"eos_token": "</s>", "bos_token": "!"}')
    convert(source, tmp_path / "out")
    facts = read_manifest(tmp_path / "out")["tokenizer"]
    assert (facts["eos_token_ids"], facts["bos_token_id"]) == ([4], 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_checkpoints_convert(
    model_folders: ModelFolders, dtype: Any, tmp_path: pathlib.Path
) -> None:
    """The graph computes with the rounded weights, widened."""
    source = model_folders.checkpoint(dtype=dtype)
    folder = model_folders(dtype=dtype)
    config, ids = read_config(source), list(range(9))
    with open_checkpoint(source) as weights:
        expected = Reference(config, weights).logits(ids, ids)
    graph = GraphSession(folder, config)
    found = graph.run([ids], [0], graph.make_cache(rows=1, capacity=16))[0]
    assert difference(found, expected) <= TOLERANCE


def test_a_moved_folder_still_loads(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The graph finds its weights wherever the folder goes, as long as they go together."""
    convert(checkpoint, tmp_path / "out")
    moved = tmp_path / "elsewhere" / "ünïcode name"
    moved.parent.mkdir()
    (tmp_path / "out").rename(moved)
    graph = GraphSession(moved, read_config(moved))
    logits = graph.run([[0, 1]], [0], graph.make_cache(rows=1, capacity=8))
    assert np.isfinite(logits).all()


def test_two_conversions_give_the_same_bytes(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Nothing in the folder depends on the time or the place of writing."""
    convert(checkpoint, tmp_path / "a")
    convert(checkpoint, tmp_path / "b")
    assert list_tree(tmp_path / "a") == list_tree(tmp_path / "b")


def test_the_stages_are_reported_in_order(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each stage is told as it begins; the full check adds its own."""
    stages: list[str] = []
    convert(checkpoint, tmp_path / "short", report=stages.append)
    assert tuple(stages) == STAGES
    stages.clear()
    convert(checkpoint, tmp_path / "full", full_check=True, report=stages.append)
    assert tuple(stages[:4]) == (*STAGES, "checking ragged rows")


def test_what_was_left_out_is_told_in_one_printable_line(tmp_path: pathlib.Path) -> None:
    """Whatever the names hold."""
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE)
    tensors = {f"a\nb.{name}": tensor for name, tensor in make_tensors(SMALLEST_SHAPE).items()}
    tensors["a\nb.score.weight"] = np.ones(1, np.float32)
    write_safetensors(source / "model.safetensors", tensors)
    notes: list[str] = []
    convert(source, tmp_path / "out", note=notes.append)
    assert notes == [
        "a\\nb. was left off the names of all weights; "
        "score.* was left out, since the language model has no use for it"
    ]


def test_the_folder_has_the_permissions_that_the_umask_asks(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Others may read a model as they may read any new folder."""
    before = os.umask(0o027)
    try:
        convert(checkpoint, tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "model.onnx").stat().st_mode & 0o777 == 0o640


def test_the_starter_converts(starter_folder: pathlib.Path) -> None:
    """The bundled checkpoint is one that this package accepts."""
    assert read_manifest(starter_folder)["precision"] == "fp32"
