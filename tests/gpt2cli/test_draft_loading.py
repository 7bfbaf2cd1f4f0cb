"""What `--draft` names, and what is said where it cannot be used; the commands with a draft."""

import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from export.convert import convert
from export.storage import Precision
from gpt2cli.config import DraftConfig, ModelConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.engine.engine import Identities
from gpt2cli.errors import ModelError, UsageError
from gpt2cli.generation.drafts import LookupDraft, ModelDraft
from gpt2cli.loading import LoadedModel
from gpt2cli.model_folder import read_manifest
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.runner import error_line, invoke
from tests.gpt2cli.store.conftest import Told
from tests.model_folders import SMALL_SHAPE, ModelFolders

OTHER_VOCABULARY = CheckpointShape(n_layer=1, n_head=1, n_embd=8, n_positions=8, vocab_size=300)
ODD_HEADS = CheckpointShape(n_layer=1, n_head=2, n_embd=24, n_positions=8, vocab_size=289)
LARGER = CheckpointShape(n_layer=3, n_head=2, n_embd=64, n_positions=8, vocab_size=289)


def load(
    model: pathlib.Path | str, draft: pathlib.Path | str, told: Told, **how: Any
) -> LoadedModel:
    config = ModelConfig(model=str(model), device="cpu", threads=1, offline=True, **how)
    return load_with_draft(config, DraftConfig(draft=str(draft)), max_slots=1, listener=told)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let all of these tests share one cache of models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def test_there_is_no_draft_unless_it_is_asked_for(model_folders: ModelFolders, told: Told) -> None:
    """Nor the graph that verifies, which takes longer to load."""
    model = load(model_folders(), "off", told)
    assert (model.drafting, model.engine.most_steps, told.notes) == (None, 1, [])


def test_a_folder_is_a_draft_of_the_same_vocabulary(
    model_folders: ModelFolders, told: Told
) -> None:
    """In whatever precision it has; it is loaded when it is asked for."""
    model = load(model_folders(), model_folders(precision=Precision.INT8), told)
    assert model.drafting is not None and model.engine.most_steps == 8 and told.notes == []
    assert isinstance(model.drafting.open_draft(), ModelDraft)


def test_a_portable_folder_may_have_a_draft_and_be_one(
    model_folders: ModelFolders, told: Told, tmp_path: pathlib.Path
) -> None:
    """Its weights lie elsewhere in the folder."""
    convert(model_folders.checkpoint(), tmp_path / "portable", portable=True)
    assert load(tmp_path / "portable", tmp_path / "portable", told).drafting is not None
    assert told.notes == []


def test_lookup_needs_no_model(model_folders: ModelFolders, told: Told) -> None:
    """It looks in the text alone."""
    drafting = load(model_folders(), "lookup", told).drafting
    assert drafting is not None and isinstance(drafting.open_draft(), LookupDraft)


def test_int8_is_the_same_checkpoint(model_folders: ModelFolders, told: Told) -> None:
    """It is exported in both precisions, once."""
    checkpoint = model_folders.checkpoint()
    assert load(checkpoint, "int8", told).drafting is not None
    exports = [note for note in told.notes if note.startswith("exporting ")]
    assert len(exports) == 2
    again = Told()
    assert load(checkpoint, "int8", again).drafting is not None and again.notes == []


@pytest.mark.parametrize(
    ("draft", "expected", "found"),
    [
        ("int8", "the name or folder of a draft, since .* is exported and cannot", "int8"),
        ("other", "a draft with the vocabulary of .*, 289 tokens", ".* which has 300 tokens"),
    ],
)
def test_a_draft_that_cannot_be_one_is_refused(
    model_folders: ModelFolders, told: Told, draft: str, expected: str, found: str
) -> None:
    """Before anything is loaded or drawn."""
    named = model_folders(OTHER_VOCABULARY) if draft == "other" else draft
    with pytest.raises(UsageError, match=f"draft: expected {expected}.*found {found}"):
        load(model_folders(), named, told)


def test_ids_that_mean_other_texts_are_another_vocabulary(
    model_folders: ModelFolders, told: Told, tmp_path: pathlib.Path
) -> None:
    """Though there are as many."""
    other = tmp_path / "other"
    shutil.copytree(model_folders(), other)
    path = other / "tokenizer.json"
    size, tokenizer = path.stat().st_size, json.loads(path.read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["d"], vocab["e"] = vocab["e"], vocab["d"]
    path.write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")))
    assert path.stat().st_size == size  # else the folder is damaged
    manifest = read_manifest(other)
    manifest["files"]["tokenizer.json"]["sha256"] = "another"
    (other / "export.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"found .*other, in which some ids mean other texts"):
        load(model_folders(), other, told)


def test_a_draft_that_is_not_there_is_an_error(model_folders: ModelFolders, told: Told) -> None:
    """As for a model."""
    with pytest.raises(ModelError, match="missing"):
        load(model_folders(), "./missing", told)


@pytest.mark.parametrize(
    ("case", "note"),
    [
        ("int8", "running without a draft: .* is int8 itself"),
        ("odd heads", r"running without a draft: .* has no graph that verifies \(heads of \d+\)"),
        ("larger", "the draft .* is larger than .*"),
    ],
)
def test_a_draft_that_gains_nothing_is_told(
    model_folders: ModelFolders, told: Told, case: str, note: str
) -> None:
    """One note; the model runs all the same."""
    if case == "int8":
        load(model_folders.checkpoint(), "int8", told, precision="int8")
        told.notes = [text for text in told.notes if not text.startswith("exporting ")]
    elif case == "larger":
        assert load(model_folders(), model_folders(LARGER), told).drafting is not None
    else:
        load(model_folders(ODD_HEADS), "lookup", told)
    [text] = told.notes
    assert re.fullmatch(note, text)


def copy_unmeasured(folder: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """Copy a model folder that may have been loaded, as it was when it was exported."""
    shutil.copytree(folder, copy)
    manifest = read_manifest(copy)
    manifest.pop("identities", None)
    (copy / "export.json").write_text(json.dumps(manifest))
    return copy


def test_what_this_machine_keeps_is_measured_once(
    model_folders: ModelFolders, told: Told, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in export.json, with ONNX Runtime's version and the processor it holds for.

    A plain run does not ask for steps, so a later run with a draft measures again.
    """
    folder = copy_unmeasured(model_folders(), tmp_path / "model")
    load(folder, "off", told)
    [kept] = read_manifest(folder)["identities"]
    assert kept.keys() == {"onnxruntime", "processor", "rows", "cuts", "steps", "together"}
    assert (kept["rows"], kept["cuts"], kept["steps"]) == (True, True, None)
    load(folder, "lookup", told)
    [kept] = read_manifest(folder)["identities"]
    assert kept["steps"] is True
    monkeypatch.setattr("gpt2cli.loading.find_identities", lambda engine: pytest.fail("again"))
    load(folder, "lookup", told)
    load(folder, "off", told)
    monkeypatch.setattr("gpt2cli.loading.find_cpu_name", lambda: "another")
    differing = Identities(rows=True, cuts=False, steps=False, together=True)
    monkeypatch.setattr("gpt2cli.loading.find_identities", lambda engine: differing)
    model = load(folder, "lookup", told)
    assert model.drafting is None
    assert (model.engine.keeps_cuts, model.engine.most_steps) == (False, 1)
    assert told.notes[-1].endswith(" not found to have the bits of single ones")
    assert len(read_manifest(folder)["identities"]) == 2


def test_what_export_json_says_wrongly_is_measured_anew(
    model_folders: ModelFolders, told: Told, tmp_path: pathlib.Path
) -> None:
    """Anything but a list of objects with booleans."""
    folder = copy_unmeasured(model_folders(), tmp_path / "model")
    load(folder, "off", told)
    [kept] = read_manifest(folder)["identities"]
    wrong: object
    for wrong in (7, "x", [3], [{**kept, "rows": "yes"}], {}):
        manifest = read_manifest(folder) | {"identities": wrong}
        (folder / "export.json").write_text(json.dumps(manifest))
        load(folder, "off", told)
        assert read_manifest(folder)["identities"][-1] == kept


def test_commands_write_what_they_write_without_a_draft(
    model_folders: ModelFolders, tmp_path: pathlib.Path
) -> None:
    """Text, records and statistics of generate; a batch; a chat: by flag and environment."""
    model = model_folders(SMALL_SHAPE)
    drafts = ("--draft", model_folders(SMALL_SHAPE, precision=Precision.INT8))
    prompts = tmp_path / "prompts"
    prompts.write_text("ab\nq\n")
    for command in (
        ("generate", "ab", "-n", "25", "--seed", "1"),
        ("generate", "ab", "-n", "40", "--seed", "2", "--overflow", "slide", "--json"),
        ("batch", prompts, "-n", "20", "--seed", "3", "--batch-size", "1"),
    ):
        plain = invoke(*command, "-m", model, "-q")
        drafted = invoke(*command, "-m", model, "-q", *drafts)
        assert plain.exit_code == drafted.exit_code == 0
        assert drafted.stdout == plain.stdout
    told = invoke("generate", "ab", "-n", "30", "-m", model, "--stats", "--ignore-eos", *drafts)
    assert " tokens for each of " in told.stderr or "the draft proposed nothing" in told.stderr


def test_a_count_of_tokens_beyond_a_call_is_refused(model_folders: ModelFolders) -> None:
    """Eight are computed at once, the last one drawn among them."""
    result = invoke("generate", "a", "-m", model_folders(), "--draft-tokens", "8")
    assert "--draft-tokens: expected a whole number 1 to 7, found 8" in error_line(result)
