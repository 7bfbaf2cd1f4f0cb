"""The folder that other programs load: its files, and what they say."""

import json
import pathlib
import shutil
from typing import Any, Final

import onnx
import pytest

from export.check import recheck
from export.convert import convert
from export.errors import OutputError
from export.folder_weights import describe
from export.graph_runner import CPU_PROVIDER
from export.storage import Precision
from tests.checkpoints import CheckpointShape, write_checkpoint
from tests.export.conversions import list_tree
from tests.model_folders import ModelFolders

_SHAPE: Final = CheckpointShape(n_layer=1, n_head=2, n_embd=16, n_positions=8, vocab_size=289)
_DESCRIPTIONS: Final = {
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("genai_config.json", "export.json"),
}
_NAMES: Final = [
    (Precision.FP32, "model", "fp32"),
    (Precision.FP16, "model_fp16", "fp16"),
    (Precision.INT8, "model_quantized", "q8"),
    (Precision.INT4, "model_q4", "q4"),
]


def read(folder: pathlib.Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return found


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a checkpoint of the test's own, to which files are added."""
    return write_checkpoint(tmp_path / "source", _SHAPE, tokenizer="filled")


@pytest.mark.parametrize(("precision", "stem", "dtype"), _NAMES, ids=[n for _, n, _ in _NAMES])
def test_each_precision_has_the_names_that_the_programs_look_for(
    model_folders: ModelFolders, precision: Precision, stem: str, dtype: str
) -> None:
    """One `.onnx` in all folders, else Optimum would have to choose; and its data beside it."""
    folder = model_folders(_SHAPE, precision=precision, portable=True)
    own = {"model.onnx.gpt2", "model_cpu.onnx.gpt2", "model_verify.onnx.gpt2"}
    if precision is Precision.FP16:
        own = {"model.onnx.gpt2"}
    files = {name for name, content in list_tree(folder).items() if content is not None}
    assert files == {*_DESCRIPTIONS, *own, f"onnx/{stem}.onnx", f"onnx/{stem}.onnx_data"}
    assert read(folder, "export.json")["files"].keys() == files - {"export.json"}
    config = read(folder, "config.json")
    assert config["transformers.js_config"] == {"dtype": dtype, "use_external_data_format": True}
    assert read(folder, "genai_config.json")["model"]["decoder"]["filename"] == f"onnx/{stem}.onnx"


def test_every_graph_reads_the_same_weights(model_folders: ModelFolders) -> None:
    """They lie once, where each graph finds them from its own folder."""
    folder = model_folders(_SHAPE, portable=True)
    own = ("model.onnx.gpt2", "model_cpu.onnx.gpt2", "model_verify.onnx.gpt2")
    paths = (*own, "onnx/model.onnx")
    places = []
    for path in paths:
        onnx.checker.check_model(folder / path)
        graph = onnx.load(folder / path, load_external_data=False, format="protobuf").graph
        external = [tensor for tensor in graph.initializer if tensor.external_data]
        entries = {t.name: {e.key: e.value for e in t.external_data} for t in external}
        files = {(folder / path).parent / entry.pop("location") for entry in entries.values()}
        assert files == {folder / "onnx" / "model.onnx_data"}
        places.append(entries)
    assert all(place == places[0] for place in places)


def test_a_portable_folder_is_checked_again_by_its_own_graphs(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Where another onnxruntime is to run it: the names that `gpt2` has them under are found."""
    copy = tmp_path / "copy"
    shutil.copytree(model_folders(_SHAPE, precision=Precision.INT8, portable=True), copy)
    manifest = read(copy, "export.json")
    (copy / "export.json").write_text(json.dumps({**manifest, "checked": []}))
    recheck(copy, CPU_PROVIDER)
    assert read(copy, "export.json")["checked"] == manifest["checked"]
    assert [name for name, *_ in describe(copy)["inputs"]][2] == "logit_positions"


def test_sizes_stand_under_the_names_that_every_program_knows(source: pathlib.Path) -> None:
    """Also where the checkpoint has other ones; code of its own does not come along."""
    config = read(source, "config.json")
    config["hidden_size"] = config.pop("n_embd")
    config["auto_map"] = {"AutoTokenizer": "code.Tokenizer"}
    (source / "config.json").write_text(json.dumps(config))
    convert(source, source.parent / "out", portable=True)
    found = read(source.parent / "out", "config.json")
    assert (found["n_layer"], found["n_head"], found["n_embd"]) == (1, 2, 16)
    assert "auto_map" not in found


def test_a_tokenizer_without_settings_gets_them(model_folders: ModelFolders) -> None:
    """A class of old and new transformers, the special tokens, and no token_type_ids."""
    folder = model_folders(_SHAPE, portable=True)
    assert read(folder, "tokenizer_config.json") == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 8,
    }


def test_a_tokenizers_own_settings_come_along(source: pathlib.Path) -> None:
    """Those of the older file too; only the class is another, and what follows from it."""
    own = {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": 5,
        "add_prefix_space": True,
        "chat_template": "{{ x }}",
    }
    (source / "tokenizer_config.json").write_text(json.dumps(own))
    (source / "special_tokens_map.json").write_text(json.dumps({"pad_token": {"content": "!"}}))
    convert(source, source.parent / "out", portable=True)
    found = read(source.parent / "out", "tokenizer_config.json")
    assert found["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert {**own, "pad_token": "!"}.items() - {("tokenizer_class", "GPT2Tokenizer")} <= (
        found.items()
    )


def test_what_ends_a_text_is_told_to_all(source: pathlib.Path) -> None:
    """As `gpt2` has it: what the model's files say, and the tokenizer's own; the rest is kept."""
    given = {"eos_token_id": [3, 4], "temperature": 0.7, "do_sample": True}
    (source / "generation_config.json").write_text(json.dumps(given))
    (source / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    out = source.parent / "out"
    convert(source, out, portable=True)
    ends = read(out, "export.json")["tokenizer"]["eos_token_ids"]
    assert ends == [3, 4, 288]
    assert read(out, "generation_config.json") == {
        **given,
        "eos_token_id": ends,
        "bos_token_id": 288,
    }
    genai = read(out, "genai_config.json")
    assert genai["model"]["eos_token_id"] == ends
    assert genai["search"] == {
        "do_sample": True,
        "temperature": 0.7,
        "max_length": 8,
        "past_present_share_buffer": False,
    }


def test_what_other_programs_do_otherwise_is_noted(tmp_path: pathlib.Path) -> None:
    """Ids without a token, and a BOS token that only GPT2Tokenizer's flag asks for."""
    shape = CheckpointShape(n_layer=1, n_head=1, n_embd=4, n_positions=4, vocab_size=50300)
    source = write_checkpoint(tmp_path / "source", shape, tokenizer="gpt2")
    (source / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))
    notes: list[str] = []
    convert(source, tmp_path / "out", portable=True, note=notes.append)
    assert notes == [
        "other programs may draw the 43 ids that the tokenizer lacks",
        "other programs do not put '<|endoftext|>' before a prompt, as gpt2 does",
    ]


def test_one_kind_of_folder_replaces_the_other_and_nothing_is_left(source: pathlib.Path) -> None:
    """With force, both ways."""
    out = source.parent / "out"
    convert(source, out)
    plain = list_tree(out).keys()
    convert(source, out, portable=True, precision=Precision.INT8, force=True)
    assert "onnx/model_quantized.onnx" in list_tree(out)
    convert(source, out, force=True)
    assert list_tree(out).keys() == plain
    assert {path.name for path in source.parent.iterdir()} == {"source", "out"}


def test_a_file_of_the_users_own_in_the_inner_folder_is_never_replaced(
    source: pathlib.Path,
) -> None:
    """It is named; the folder stays as it is."""
    out = source.parent / "out"
    convert(source, out, portable=True)
    (out / "onnx" / "notes.txt").write_text("mine")
    before = list_tree(out)
    with pytest.raises(OutputError, match=r"holds 'onnx/notes.txt'"):
        convert(source, out, portable=True, force=True)
    assert list_tree(out) == before
