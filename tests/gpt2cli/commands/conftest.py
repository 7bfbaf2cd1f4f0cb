"""Fixtures for the tests of commands."""

import pathlib

import pytest

from tests.gpt2cli.commands.settings_cases import Keep


@pytest.fixture
def keep(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Give the user's config file a text, in a folder of its own; return its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "gpt2" / "config.toml"
    path.parent.mkdir(parents=True)

    def write(text: str) -> pathlib.Path:
        path.write_text(text, encoding="utf-8")
        return path

    return write
