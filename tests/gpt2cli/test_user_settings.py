"""Claims about the user's own settings as they stand in the environment and in the file."""

import multiprocessing
import os
import pathlib
import sys
from typing import Any

import pytest

from gpt2cli.errors import OutputError, UsageError
from gpt2cli.user_settings import (
    config_file,
    read_config,
    read_variable,
    remove_setting,
    variable_of,
    write_setting,
)
from tests.killing import killed_everywhere

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks and processes of POSIX")


@pytest.fixture(autouse=True)
def path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return where the config file of each test will be; its folder is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return config_file()


def keep(path: pathlib.Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_a_variable_is_the_key_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one says nothing, as one that is not there."""
    monkeypatch.setenv("GPT2_TOP_K", "5")
    monkeypatch.setenv("GPT2_SEED", "")
    assert variable_of("top_k") == "GPT2_TOP_K"
    assert [read_variable(key) for key in ("top_k", "seed", "stop")] == ["5", None, None]


def test_no_file_has_no_keys(path: pathlib.Path) -> None:
    """Nor has an empty one; to remove what was never kept makes no folder."""
    assert read_config() == {}
    assert not remove_setting("top_k")
    assert not path.parent.exists()
    keep(path, "")
    assert read_config() == {}


def test_nothing_is_imported_to_read_a_file_that_is_not_there() -> None:
    """The usual case costs nothing."""
    before = set(sys.modules)
    read_config()
    assert not {"tomllib", "tomlkit"} & (set(sys.modules) - before)


def test_keys_are_read_with_underscores(path: pathlib.Path) -> None:
    keep(path, 'top-k = 5\nmin_p = 0.5\nstop = ["a", "b"]\ngreedy = true\n')
    assert read_config() == {"top_k": 5, "min_p": 0.5, "stop": ["a", "b"], "greedy": True}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("top_k = x\n", "is not valid TOML: .*line 1"),
        ("top_k 5", "is not valid TOML: .*; expected lines such as top_k = 40, each key once$"),
        ("a = 1\na = 2", "is not valid TOML: .*, each key once$"),
        (f"a = {'[' * 5000}", "is nested too deeply"),
        (f"a = {'1' * 5000}", "is not valid TOML: a number has thousands of digits"),
        (b"a = '\xff'", r"is not valid UTF-8 \(byte 5\)"),
        ("top-k = 1\ntop_k = 2", "top-k and top_k are the same key"),
    ],
    ids=["no value", "no equals", "twice", "deep", "long", "latin-1", "two spellings"],
)
def test_a_file_that_cannot_be_understood_is_an_error_with_its_path(
    path: pathlib.Path, text: str | bytes, reason: str
) -> None:
    keep(path, text)
    with pytest.raises(UsageError, match=f"^{path}:? {reason}") as caught:
        read_config()
    if "TOML" in reason:  # two libraries read it, and one of them tells
        with pytest.raises(UsageError) as again:
            write_setting("top_k", 5)
        assert str(again.value) == str(caught.value)


@pytest.mark.parametrize("value", [5, 0.5, True, "é\n\"'", ["a", "\n"], []], ids=repr)
def test_what_is_written_is_read_again(value: Any) -> None:
    """Of every kind that an option has; the folder is made."""
    write_setting("some_key", value)
    assert read_config() == {"some_key": value}


def test_writing_leaves_comments_and_other_keys(path: pathlib.Path) -> None:
    """Also the spelling of a key that is there, and the file's mode."""
    keep(path, "# mine\ntop-k = 5  # few\n\nseed = 1\n")
    path.chmod(0o600)
    write_setting("top_k", 7)
    write_setting("stop", ["a"])
    expected = '# mine\ntop-k = 7  # few\n\nseed = 1\nstop = ["a"]\n'
    assert path.read_text(encoding="utf-8") == expected
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def test_removing_leaves_comments_and_other_keys(path: pathlib.Path) -> None:
    """And tells whether there was anything to remove."""
    keep(path, "# mine\ntop-k = 5\nseed = 1  # one\n")
    assert remove_setting("top_k")
    assert not remove_setting("top_k")
    assert path.read_text(encoding="utf-8") == "# mine\nseed = 1  # one\n"


@pytest.mark.parametrize("text", ["top_k = ", "a = 1\na = 2", b"\xff"], ids=repr)
def test_beside_a_file_that_cannot_be_understood_nothing_changes(
    path: pathlib.Path, text: str | bytes
) -> None:
    """Neither to add to it nor to take from it; not even the folder's time of change."""
    keep(path, text)
    os.utime(path.parent, (1, 1))
    before = (path.read_bytes(), path.stat(), path.parent.stat().st_mtime)
    with pytest.raises(UsageError, match=str(path)):
        write_setting("top_k", 5)
    with pytest.raises(UsageError, match=str(path)):
        remove_setting("top_k")
    assert (path.read_bytes(), path.stat(), path.parent.stat().st_mtime) == before


@posix
def test_none_of_several_that_write_at_once_is_lost(path: pathlib.Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_ten, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read_config()) == 30
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def _write_ten(name: str) -> None:
    for number in range(10):
        write_setting(f"{name}{number}", number)


@posix
def test_a_kill_at_any_step_of_writing_leaves_the_old_or_the_new(path: pathlib.Path) -> None:
    """And the next writing leaves nothing beside it."""

    def prepare() -> None:
        keep(path, "a = 1\n")

    for _ in killed_everywhere(prepare, lambda: write_setting("b", 2)):
        assert path.read_text() in ("a = 1\n", "a = 1\nb = 2\n")
        write_setting("b", 3)
        assert path.read_text() == "a = 1\nb = 3\n"
        assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def test_what_cannot_be_written_is_an_error_with_its_path(path: pathlib.Path) -> None:
    """Here a file stands where its folder should be."""
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("", encoding="utf-8")
    with pytest.raises((OutputError, UsageError), match=str(path)):
        write_setting("top_k", 5)
