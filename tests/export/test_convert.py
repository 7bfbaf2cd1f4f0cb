"""What a conversion writes, and what it tells while it does."""

import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest

from export.config import read_config
from export.convert import convert
from export.graph import GRAPH_VERSION
from export.manifest import find_graphs
from export.storage import Precision
from tests.checkpoints import CheckpointShape, make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import MODEL_FILES, SMALLEST_SHAPE, STAGES, list_tree, read_manifest
from tests.export.graph_session import GraphSession
from tests.model_folders import ModelFolders


def test_the_folder_holds_the_files_of_the_contract(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Five files, and nothing beside the folder, whose parents are made; the origin is kept."""
    origin = {"repository": "openai-community/gpt2", "revision": "607a30d"}
    out = tmp_path / "a" / "b" / "out"
    convert(checkpoint, out, origin=origin)
    assert {path.name for path in out.iterdir()} == MODEL_FILES
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert read_manifest(out)["source"] == origin


@pytest.mark.parametrize(
    ("head_dim", "precision", "names"),
    [
        (8, Precision.FP32, ["model.onnx", "model_cpu.onnx", "model_verify.onnx"]),
        (24, Precision.INT8, ["model.onnx", "model_cpu.onnx", "model_verify.onnx"]),
        (12, Precision.FP32, ["model.onnx"]),
        (8, Precision.FP16, ["model.onnx"]),
    ],
)
def test_there_are_graphs_for_the_cpu_where_it_has_the_operator(
    model_folders: ModelFolders, head_dim: int, precision: Precision, names: list[str]
) -> None:
    """Heads of a multiple of 8, in float32; all graphs take their weights from the same bytes."""
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
        **{"n_layer": 2, "n_head": 2, "n_embd": 32, "head_dim": 16},
        **{"n_positions": 33, "vocab_size": 289},
    }
    ends = {"begins": "config.json", "ends": "config.json", "silent": "tokenizer.json"}
    assert manifest["tokenizer"] == {
        **{"vocab_size": 289, "missing_ids": [], "start_ids": []},
        **{"bos_token_id": 288, "eos_token_ids": [288]},
        "special_tokens": [{"id": 288, "text": "<|endoftext|>", **ends}],
        "names": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    }
    assert manifest["onnx"] == onnx.__version__
    assert manifest["checked"] == [
        {"onnxruntime": onnxruntime.__version__, "provider": "CPUExecutionProvider"}
    ]
    assert manifest["source"] == {"path": str(source.resolve())}


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


def test_a_moved_folder_still_loads(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The graph finds its weights wherever the folder goes, as long as they go together."""
    convert(checkpoint, tmp_path / "out")
    moved = tmp_path / "elsewhere" / "ünïcode name"
    moved.parent.mkdir()
    (tmp_path / "out").rename(moved)
    graph = GraphSession(moved, read_config(moved))
    logits = graph.run([[0, 1]], [0], graph.make_cache(rows=1, capacity=8))
    assert np.isfinite(logits).all()


def test_the_stages_are_reported_in_order(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each as it begins; the full check adds its own, and changes no byte of the folder.

    Nor does the time or the place of writing.
    """
    stages: list[str] = []
    convert(checkpoint, tmp_path / "short", report=stages.append)
    assert tuple(stages) == STAGES
    stages.clear()
    convert(checkpoint, tmp_path / "full", full_check=True, report=stages.append)
    checking = "checking all positions by model.onnx, in one piece and cut"
    assert tuple(stages[:4]) == (*STAGES, checking)
    assert list_tree(tmp_path / "short") == list_tree(tmp_path / "full")


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
        "score.* was left out; the language model does not use it"
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
