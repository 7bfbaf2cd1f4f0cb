"""Claims about what a model's name means."""

import pathlib

import pytest

from gpt2cli.errors import ModelError
from gpt2cli.store.names import HUB_ALIASES, STARTER_FOLDER, parse_name


@pytest.mark.parametrize(
    ("name", "meant"),
    [*((name, "openai-community/gpt2") for name in ("124M", "gpt2", "openai-community/gpt2")),
     ("starter", STARTER_FOLDER)],
)  # fmt: skip
def test_alias_size_and_hub_id_name_one_model(name: str, meant: str | pathlib.Path) -> None:
    assert parse_name(name) == meant


def test_every_alias_names_a_repository_with_an_owner() -> None:
    """The hub no longer serves bare names."""
    assert all(repo.count("/") == 1 for repo in HUB_ALIASES.values())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        # owner/name is a folder where there is one, as Hugging Face's own tools have it.
        ("owner/name", pathlib.Path("owner/name")),
        ("owner/other", "owner/other"),
        # A folder beside the user never changes what gpt2 means; ./gpt2 names it.
        ("gpt2", "openai-community/gpt2"),
        ("./gpt2", pathlib.Path("gpt2")),
    ],
)
def test_an_alias_comes_before_a_folder_and_that_before_a_hub_id(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, meant: str | pathlib.Path
) -> None:
    for folder in ("owner/name", "gpt2"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert parse_name(name) == meant


def test_a_folder_that_a_killed_export_moved_aside_is_put_back(tmp_path: pathlib.Path) -> None:
    """It is the folder of that name until a whole one takes its place."""
    aside = tmp_path / ".model.abcd_123.replaced"
    aside.mkdir()
    assert parse_name(str(tmp_path / "model")) == tmp_path / "model"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("gpt2-small", r"did you mean gpt2\?"),
        ("gpt2-medum", r"did you mean gpt2-medium\?"),
        ("gpt2xl", r"did you mean gpt2-xl\?"),
        ("gtp2", "gpt2"),
        ("distillgpt2", "distilgpt2"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, suggested: str) -> None:
    with pytest.raises(ModelError, match=f"unknown model '{name}'.*{suggested}"):
        parse_name(name)


def test_a_file_is_no_model(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it looked for on the hub, though its path looks like an id."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.onnx").touch()
    with pytest.raises(ModelError, match=r"'folder/model\.onnx' is a file; expected a folder"):
        parse_name("folder/model.onnx")


@pytest.mark.parametrize(
    "name",
    ["./missing", "~/none", "~nobody-here/x", "a/b/c", "a\0b/c/d", "a/\ud800/c", "", "x" * 5000],
)
def test_a_path_that_does_not_exist_is_refused(name: str) -> None:
    """Nothing that looks like a path is sent to the hub; no error of the system escapes."""
    with pytest.raises(ModelError):
        parse_name(name)
