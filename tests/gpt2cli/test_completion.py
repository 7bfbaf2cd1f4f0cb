"""Claims about what the shell is offered; tests/e2e/test_completion.py drives the shells."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gpt2cli.app import app
from gpt2cli.config import ModelConfig
from gpt2cli.declarations import options_of
from gpt2cli.options import complete_cached, complete_model, complete_option
from gpt2cli.store.names import HUB_ALIASES


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the folder of the models in an empty cache, and stand in an empty folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    models = tmp_path / "cache" / "gpt2" / "models"
    models.mkdir(parents=True)
    return models


def names(offers: list[str | tuple[str, str]]) -> list[str]:
    return [offer if isinstance(offer, str) else offer[0] for offer in offers]


def test_models_are_the_aliases_the_cache_and_folders_of_models(
    cache: pathlib.Path, starter_folder: pathlib.Path
) -> None:
    """Each once; a folder without a config.json is none."""
    shutil.copytree(starter_folder, cache / "some-export")
    for name in ("mine", "other"):
        pathlib.Path(name).mkdir()
    pathlib.Path("mine", "config.json").touch()
    (cached,) = names(complete_cached(""))
    offered = names(complete_model(""))
    assert sorted(offered) == sorted({"starter", *HUB_ALIASES, cached, "mine"})
    assert names(complete_model("gpt2-")) == ["gpt2-medium", "gpt2-large", "gpt2-xl"]
    assert names(complete_model("./m")) == []  # left to the shell


def test_an_empty_or_broken_cache_offers_nothing_of_its_own(cache: pathlib.Path) -> None:
    """And is no error, which would stand in the middle of a line."""
    assert complete_cached("") == []
    cache.rmdir()
    assert complete_cached("") == []
    cache.write_text("", encoding="utf-8")
    assert complete_cached("") == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gpt2 config set overflow ", ["stop", "slide", "error"]),
        ("gpt2 config set greedy ", ["on", "off"]),
        ("gpt2 config set device c", ["cpu", "cuda"]),
        ("gpt2 config set nosuch ", []),
        ("gpt2 config set max", ["max_new_tokens", "max_time"]),
        ("gpt2 generate --device ", ["auto", "cpu", "cuda"]),
        ("gpt2 config set top_k ", []),
        ("gpt2 generate --precision int", ["int8", "int4"]),
        ("gpt2 generate --overf", ["--overflow"]),
    ],
)
def test_a_shell_is_offered_the_values(words: str, offered: list[str]) -> None:
    result = CliRunner().invoke(app, env=as_the_shell_asks(words), prog_name="gpt2")
    assert (result.stdout.split(), result.stderr) == (offered, "")


def test_what_takes_time_to_import_is_not_imported_to_complete() -> None:
    heavy = {"numpy", "onnxruntime", "tokenizers", "huggingface_hub"}
    script = (
        "import sys\nfrom gpt2cli.app import app\ntry: app()\n"
        f"finally: assert not {heavy!r} & set(sys.modules)"
    )
    variables = {**os.environ, **as_the_shell_asks("gpt2 generate --device ")}
    run = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True)
    assert (run.stdout.split(), run.stderr) == ([b"auto", b"cpu", b"cuda"], b"")


def as_the_shell_asks(words: str) -> dict[str, str]:
    place = str(words.count(" "))
    return {"COMP_WORDS": words, "COMP_CWORD": place, "_GPT2_COMPLETE": "complete_bash"}


def test_folders_here_that_hold_an_adapter_are_offered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no others."""
    monkeypatch.chdir(tmp_path)
    for name, file in (("poet", "adapter_config.json"), ("plain", "config.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    adapter = next(option for option in options_of(ModelConfig) if option.field == "adapter")
    assert complete_option(adapter, "p") == [("poet", "folder")]
