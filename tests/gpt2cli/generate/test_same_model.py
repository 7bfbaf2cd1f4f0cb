"""Claims about which of a server's models is the one that is asked for."""

import pathlib
from typing import Any

import pytest

from gpt2cli.config import ModelConfig
from gpt2cli.errors import ModelError
from gpt2cli.generate.same_model import find_difference
from gpt2cli.model_folder import digest_source, read_model_folder
from gpt2cli.store.memory import keep_commit
from tests.gpt2cli.store.conftest import Told

_GPT2 = "openai-community/gpt2"
_COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Know no commits but those of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tell(name: str = "starter", *, asked: dict[str, Any] | None = None, **more: Any) -> Any:
    told = {"id": name, "title": name, "precision": "fp32", "device": "cpu"}
    names = ModelConfig(**({"model": name} if asked is None else asked)).names
    return {**told, "fingerprint": "0", "source": "0", "asked": names, **more}


def compare(told: Any, **asked: Any) -> str | None:
    return find_difference(ModelConfig(**asked), told, listener=Told())


@pytest.mark.parametrize(
    ("asked", "told", "difference"),
    [
        ({}, tell(), None),
        ({"precision": "fp32", "device": "cpu"}, tell(), None),
        ({"model": "gpt2"}, tell(), "starter, not gpt2"),
        ({"precision": "int8"}, tell(), "starter in fp32, not in int8"),
        ({}, tell(precision="int8"), "starter in int8, not in fp32"),
        ({"precision": "int8"}, tell(precision="int8"), None),
        ({}, tell(device="cuda:0", precision="fp16"), None),
        ({"device": "cuda"}, tell(device="cuda:0", precision="fp16"), None),
        (
            {"device": "cuda:1"}, tell(device="cuda:0", precision="fp16"),
            "starter on cuda:0, not on cuda:1",
        ),
        ({"device": "cuda"}, tell(), "starter on cpu, not on cuda"),
    ],
)  # fmt: skip
def test_name_precision_and_device_are_compared(
    asked: dict[str, str], told: Any, difference: str | None
) -> None:
    """Where none is named, they are those of a run here."""
    assert compare(told, **{"model": "starter", **asked}) == difference


def test_without_a_name_it_is_the_default_model_or_what_stands_in_for_it() -> None:
    """As long as the server was not told another one."""
    assert compare(tell(asked={})) is None
    assert compare(tell(_GPT2)) is None
    assert compare(tell()) == "starter, not gpt2"


def test_a_commit_that_is_known_here_must_be_the_servers() -> None:
    """One that is not is compared by its name."""
    first, second = (digest_source({"repo": _GPT2, "commit": commit}) for commit in _COMMITS)
    assert compare(tell(_GPT2), model="gpt2", revision="old") == f"{_GPT2}, not gpt2, as it is here"
    asked = {"model": _GPT2, "revision": "old"}
    assert compare(tell(_GPT2, asked=asked), model="gpt2", revision="old") is None
    keep_commit(_GPT2, "main", _COMMITS[0])
    assert compare(tell(_GPT2, source=first), model="gpt2") is None
    assert compare(tell(_GPT2, source=second), model="gpt2") is not None
    assert compare(tell(_GPT2, source=second), model="gpt2", revision=_COMMITS[1]) is None


def test_a_folder_must_be_the_servers_own(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A model folder by its weights, a checkpoint by its path and files, whatever the name."""
    folder = read_model_folder(starter_folder)
    told = tell("/elsewhere", fingerprint=folder.fingerprint)
    assert compare(told, model=str(starter_folder)) is None
    assert compare(tell("/elsewhere"), model=str(starter_folder)) is not None
    (tmp_path / "config.json").write_text("{}")
    stat = (tmp_path / "config.json").stat()
    files = {"config.json": [stat.st_size, stat.st_mtime_ns]}
    source = digest_source({"path": str(tmp_path.resolve()), "files": files})
    assert compare(tell("x", source=source), model=str(tmp_path)) is None
    (tmp_path / "config.json").write_text("{ }")
    assert compare(tell("x", source=source), model=str(tmp_path)) is not None


def test_adapters_are_compared_too() -> None:
    assert (
        compare(tell(), model="starter", adapter=("a/b",))
        == "starter, not starter + a/b, as it is here"
    )
    with pytest.raises(ModelError):
        compare(tell(), model="starter", adapter=("none",))
