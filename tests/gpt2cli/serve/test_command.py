"""`gpt2 serve` as a command: what is wrong is one line, before anything listens."""

import importlib.util
import pathlib
from typing import Any

import pytest

from tests.gpt2cli.runner import error_line, invoke


def test_without_the_extra_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each package that is missing, by its name."""

    def find(name: str) -> Any:
        return None if name in missing else importlib.util.find_spec(name)

    monkeypatch.setattr("gpt2cli.serve.command.find_spec", find)
    missing = {"starlette", "uvicorn"}
    result = invoke("serve", "-m", "starter")
    told = "serve needs starlette and uvicorn, which are not installed"
    assert (result.exit_code, error_line(result)) == (1, f"{told}; pip install starlette uvicorn")
    missing = {"uvicorn"}
    told = "serve needs uvicorn, which is not installed; pip install uvicorn"
    assert error_line(invoke("serve", "-m", "starter")) == told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "--host: expected --api-key-file FILE, or --no-key"),
        (["--host", "example.org"], "--host: expected --api-key-file FILE, or --no-key"),
        (["--api-key", "x", "--no-key"], "--no-key: expected no --api-key together with it"),
        (["--api-key", "ä"], "--api-key: expected keys of printable ASCII, found other characters"),
        (["--port", "65536"], "--port: expected a whole number 0 to 65535, found 65536"),
        (["--max-waiting", "0"], "--max-waiting: expected"),
        (["--bot-name", "User"], "--bot-name: expected another name than 'User'"),
    ],
)
def test_wrong_options_are_usage_errors(options: list[str], told: str) -> None:
    result = invoke("serve", "-q", "-m", "starter", *options)  # without a note of its first use
    assert result.exit_code == 2
    assert error_line(result).startswith(told)


def test_a_key_is_in_no_error(tmp_path: pathlib.Path) -> None:
    """Neither one of the command line nor one of a file."""
    (tmp_path / "keys").write_text("se cret\x01\n")
    for options in (["--api-key", "secret\x01"], ["--api-key-file", str(tmp_path / "keys")]):
        line = error_line(invoke("serve", "-m", "starter", *options))
        assert "cret" not in line


def test_a_model_that_cannot_be_had_leaves_no_socket(tmp_path: pathlib.Path) -> None:
    """The server listens before the model is there, to say that it loads."""
    socket = tmp_path / "socket"
    result = invoke("serve", "-m", str(tmp_path / "none"), "--unix", str(socket))
    assert result.exit_code == 1
    assert "none" in error_line(result)
    assert not socket.exists()
