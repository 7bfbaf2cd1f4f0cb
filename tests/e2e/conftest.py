"""Fixtures that drive the installed program, apart from the user's cache and from the network."""

import os
import pathlib
import signal
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e.program import Finished, Program

if sys.platform == "win32":  # which has neither their shell and signals nor a pseudo-terminal
    _EVERYWHERE = ("test_export.py", "test_input.py", "test_pipe.py")
    _ALL = pathlib.Path(__file__).parent.glob("test_*.py")
    collect_ignore = [path.name for path in _ALL if path.name not in _EVERYWHERE]

# What would change what the program does.
_LEAKS = ("GPT2_", "HF_", "XDG_", "LC_", "PYTHON", "ORT_", "CI")
_COLOURS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the installed program, whose starter is exported; its runs share what they keep."""
    path = pathlib.Path(sys.executable).parent / ("gpt2.exe" if os.name == "nt" else "gpt2")
    installed = Program(path, make_environment(tmp_path_factory.mktemp("home")))
    done = installed.run("generate", "--model", "starter", "-n", "0", "--quiet", "x")
    assert done == Finished(0, b"x\n", "")
    return installed


@pytest.fixture
def fresh_program(program: Program, tmp_path: pathlib.Path) -> Program:
    """Return the installed program for a user who never ran it."""
    return Program(program.path, make_environment(tmp_path / "home"))


@pytest.fixture(scope="session", autouse=True)
def signals_are_heard() -> Iterator[None]:
    """Undo what shells do to background jobs, and nohup: they ignore them, and so would ours."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def make_environment(home: pathlib.Path) -> Mapping[str, str]:
    """Return this environment without what a user's own would add, and with caches in `home`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEAKS) and name not in _COLOURS
    }
    return kept | {
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "HF_HOME": str(home / "hub"),
        "HF_HUB_OFFLINE": "1",
        "GPT2_THREADS": "1",  # else several at once wait for each other's threads
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "COLUMNS": "80",
    }
